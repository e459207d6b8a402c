"""The published versions as folders: made aside, renamed when whole, shown to readers by one link.

published/current → v000123/        the link, relative, so that a copied or mounted folder still works
published/v000123/gpu_net.duckdb    what readers open
published/v000123/report.html       the page about it; published/report.html leads to the current version's
published/v000123/parquet/          the same tables as Parquet (`warehouse.publication.parquet_export`)
published/v000123/manifest.json     which build it shows, and per table and day the count and hash of its rows
published/v000123/released          it was shown to readers; a version without it was left by a killed publication
published/same.json                 a later build that holds the same rows as a version
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from warehouse.atomic import fsync, replaced

DATABASE, MANIFEST, RELEASED, CURRENT = "gpu_net.duckdb", "manifest.json", "released", "current"
REPORT = "report.html"
#: beside the versions: the newest build whose rows a version held already, so that nothing was made of it
SAME = "same.json"
#: so many versions stay at least: readers that opened one before the swap still read it, and there is something to go back to
VERSIONS_KEPT = 3
VERSIONS_KEPT_VARIABLE = "GPU_NET_PUBLICATIONS_KEPT"
_VERSION = re.compile(r"v(\d{6,})")
#: ioctl that lets two files share their blocks until one is written to (btrfs, XFS, …)
_FICLONE = 0x40049409

#: bucket (a day, or "all") → (row count, sum of row hashes as text)
Contents = dict[str, tuple[int, str]]


@dataclass(frozen=True)
class Manifest:
    """What a version holds. `columns` (name → type) and `contents` are per table."""

    publication_id: str
    build_id: str
    published_at: str
    data_through_at: str | None
    duckdb_version: str
    copies_since_rewrite: int
    columns: dict[str, dict[str, str]]
    contents: dict[str, Contents]

    def write(self, folder: Path) -> None:
        (folder / MANIFEST).write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        record = json.loads((folder / MANIFEST).read_text())
        contents = {
            table: {bucket: (int(count), str(digest)) for bucket, (count, digest) in buckets.items()}
            for table, buckets in record.pop("contents").items()
        }
        return cls(contents=contents, **record)


@dataclass(frozen=True)
class Version:
    """One published version; `path` is its folder."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def number(self) -> int:
        return int(self.name[1:])

    @property
    def database(self) -> Path:
        return self.path / DATABASE

    @property
    def manifest(self) -> Manifest:
        return Manifest.read(self.path)


def versions(published: Path) -> list[Version]:
    """Every version that is whole, oldest first."""
    folders = [path for path in published.iterdir() if _VERSION.fullmatch(path.name) and path.is_dir()]
    return sorted((Version(path) for path in folders), key=lambda version: version.number)


def find(published: Path, name: str) -> Version | None:
    """The version of a name (`v000012`, `v12` or `12`); None where it is not kept."""
    digits = name.removeprefix("v")
    number = int(digits) if digits.isdecimal() else None
    return next((version for version in versions(published) if version.number == number), None)


def versions_kept() -> int:
    """How many versions stay, from the environment; ValueError for what is no such number."""
    text = os.environ.get(VERSIONS_KEPT_VARIABLE) or str(VERSIONS_KEPT)
    if not text.isdecimal() or int(text) < VERSIONS_KEPT:
        raise ValueError(f"{VERSIONS_KEPT_VARIABLE}={text}: give a whole number of at least {VERSIONS_KEPT}, or none")
    return int(text)


def current_version(published: Path) -> Version | None:
    """The version readers see; None before the first, or where the link leads nowhere."""
    with suppress(FileNotFoundError):
        version = Version(published / (published / CURRENT).readlink().name)
        if version.database.exists() and (version.path / MANIFEST).exists():
            return version
    return None


def note_same(version: Version, build_id: str) -> None:
    """Remember that a later build holds the rows of a version, and that readers therefore see that build."""
    with replaced(version.path.parent / SAME) as file:
        file.write_text(json.dumps({"publication_id": version.name, "build_id": build_id}))


def shows(version: Version, build_id: str) -> bool:
    """Whether the rows of a version are those of a build: made of it, or found equal to it."""
    if version.manifest.build_id == build_id:
        return True
    with suppress(FileNotFoundError, ValueError):
        noted = json.loads((version.path.parent / SAME).read_text())
        return bool(noted == {"publication_id": version.name, "build_id": build_id})
    return False


def sweep(published: Path) -> list[str]:
    """Remove what killed publications left; the names removed. Only for the holder of the warehouse's lock."""
    current = current_version(published)
    if current:
        _mark_released(current)
    unreleased = [version.path for version in versions(published) if not (version.path / RELEASED).exists()]
    leftovers = [*published.glob(".tmp-*"), *unreleased]
    for path in leftovers:
        _remove(path)
    return [path.name for path in leftovers]


@contextmanager
def new_version(published: Path) -> Iterator[Path]:
    """Yield a folder to fill; what was filled without an error is renamed to the next version by `seal`."""
    folder = published / f".tmp-{uuid.uuid4().hex}"
    folder.mkdir()
    try:
        yield folder
    finally:
        if folder.exists():
            _remove(folder)


def next_name(published: Path) -> str:
    return f"v{max((version.number for version in versions(published)), default=0) + 1:06d}"


def seal(folder: Path, name: str) -> Version:
    """Make a filled folder the version `name`: readable by all, writable by its owner only, on the disk, whole."""
    for path in (*folder.rglob("*"), folder):
        # a file that other versions have as well was opened to readers, and is on the disk, already
        if path.is_dir() or path.stat().st_nlink == 1:
            open_to_readers(path)
            fsync(path)
    version = Version(folder.rename(folder.parent / name))
    fsync(folder.parent)
    return version


def open_to_readers(path: Path) -> None:
    """Let everyone read a file, or list a folder, and only its owner write; what is made below a home is private at first."""
    if not path.is_symlink():
        path.chmod(0o755 if path.is_dir() else 0o644)


def release(version: Version) -> None:
    """Point `current` at the version, in one step: readers that open the file get the old version or this one."""
    published = version.path.parent
    _link(published / CURRENT, version.name)
    # leads through `current`, so that it is made once and never lags behind
    report = published / REPORT
    if not report.is_symlink():
        _link(report, f"{CURRENT}/{REPORT}")
    fsync(published)
    _mark_released(version)


def _mark_released(version: Version) -> None:
    marker = version.path / RELEASED
    marker.touch()
    open_to_readers(marker)


def _link(path: Path, target: str) -> None:
    """A relative link in one step, in place of what was there."""
    link = path.with_name(f".tmp-{uuid.uuid4().hex}")
    link.symlink_to(target)
    link.replace(path)


def expire(published: Path, keep: int | None = None, needed: Collection[str] = ()) -> list[str]:
    """Remove old versions; the names removed. The newest `keep`, the last of each month, the current one and `needed` stay.

    Without `keep` the environment says how many; raises ValueError where it says no number.
    """
    keep = versions_kept() if keep is None else keep
    every = versions(published)
    last_of_month = {datetime.fromisoformat(version.manifest.published_at).strftime("%Y-%m"): version.name for version in every}
    current = current_version(published)
    kept = {version.name for version in every[-max(keep, VERSIONS_KEPT) :]} | set(last_of_month.values()) | set(needed)
    expired = [version for version in every if version.name not in kept and version != current]
    for version in expired:
        # a name that no one takes for a version, so that a removal that is killed leaves no half version
        _remove(version.path.rename(published / f".tmp-{version.name}-{uuid.uuid4().hex}"))
    return [version.name for version in expired]


def clone(source: Path, target: Path) -> None:
    """Copy a file, sharing its blocks where the file system can."""
    with source.open("rb") as original, target.open("wb") as copy:
        try:
            fcntl.ioctl(copy.fileno(), _FICLONE, original.fileno())
            return
        except OSError:
            pass
    shutil.copyfile(source, target)


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    else:
        shutil.rmtree(path)
