"""The one place that knows where files lie under `GPU_NET_HOME`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

PROJECT_ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Home:
    """Root of everything the pipeline writes; `raw` may lie elsewhere (`GPU_NET_LANDING`)."""

    root: Path
    raw: Path

    @classmethod
    def from_environment(cls) -> Home:
        """Read `GPU_NET_HOME` and `GPU_NET_LANDING`; the default is `warehouse/data` in the project."""
        root = Path(os.environ.get("GPU_NET_HOME") or PROJECT_ROOT / "warehouse" / "data").expanduser().absolute()
        landing = os.environ.get("GPU_NET_LANDING")
        return cls(root, Path(landing).expanduser().absolute() if landing else root / "raw")

    @property
    def build(self) -> Path:
        """Private to the build: its database, dbt's artifacts, the verdict."""
        return self.root / "build"

    @property
    def build_database(self) -> Path:
        return self.build / "gpu_net.duckdb"

    @property
    def published(self) -> Path:
        """Readable by others; `current` in it is a link to the newest version."""
        return self.root / "published"

    @property
    def published_database(self) -> Path:
        return self.published / "current" / "gpu_net.duckdb"

    @property
    def quarantine(self) -> Path:
        return self.root / "quarantine"

    @property
    def config(self) -> Path:
        return self.root / "config"

    @property
    def state(self) -> Path:
        """What collectors keep between two calls: the last reading of each counter, samples not landed yet."""
        return self.root / "state"

    @property
    def digests(self) -> Path:
        """The mails of each day as files, and who was sent them."""
        return self.root / "digests"

    @property
    def alerts(self) -> Path:
        """The events that alert rules found, and who was told of them."""
        return self.root / "alerts"

    def create(self) -> Home:
        """Make the folders: private ones for the owner only, `published` readable by all.

        From here on whatever this process and its children write is for the owner only; what readers get, publication opens.
        """
        os.umask(0o077)
        for folder in (self.root, self.raw, self.build, self.quarantine, self.config, self.state, self.digests, self.alerts):
            folder.mkdir(parents=True, exist_ok=True)
        if not self.published.exists():
            self.published.mkdir()
            self.published.chmod(0o755)
            # readers must be able to reach `published` through the root, but not to list the root
            self.root.chmod(0o711)
        if self.is_landing_shared:
            # hosts that land under another account than the build's: its owner has said by the folder's mode who may read
            os.umask(0o077 & ~self.raw.stat().st_mode)
        return self

    @property
    def is_landing_shared(self) -> bool:
        """Whether the landing root lies outside of the home, in a folder that others may read."""
        return not self.raw.is_relative_to(self.root) and bool(self.raw.stat().st_mode & 0o077)
