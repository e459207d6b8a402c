"""One good input for every form that a collector reads from a file: what the tests beside it damage."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import REAL_DATA
from tests.unit.collectors.billing.bills import bill
from tests.unit.collectors.dcgm.scrapes import ENERGY, GRAPHICS, SM, UTIL, scrape

RECORDINGS = Path(__file__).parents[1]
AT = "2026-11-02T00:10:00Z"


@dataclass(frozen=True)
class Input:
    """A file's name and text, and the command that reads it, without the file; `cells` is the delimiter of its columns."""

    name: str
    file: str
    text: str
    command: tuple[str, ...]
    cells: str | None = None
    #: lines that may be cut off without the rest losing its meaning
    has_header: bool = False

    @property
    def data(self) -> bytes:
        return self.text.encode("utf-8", "surrogateescape")

    @property
    def arguments(self) -> tuple[str, ...]:
        return (*self.command, "--cluster", "c1")


def _recording(*parts: str) -> str:
    return RECORDINGS.joinpath(*parts).read_text()


SAMPLES = """\
cluster,node,gpu_uuid,interval_start_at,interval_ms,sm_active_ratio
c1,n1,GPU-1,2026-11-02T00:00:00Z,60000,0.5
c1,n1,GPU-1,2026-11-02T00:01:00Z,60000,0.25
"""
SACCT = _recording("slurm", "recordings", "sacct_parsable_all_steps.txt")
SONAR_CSV = (
    "v=0.14,JobIDRaw=7,JobName=train,State=COMPLETED,Start=2025-05-02T14:09:52+02:00,"
    "End=2025-05-02T15:09:52+02:00,ElapsedRaw=3600\n"
)
NODES = [{"cluster": "c1", "node": name, "gpu_count": 8, "seen_at": "2026-11-02T00:00:00Z"} for name in ("n1", "n2")]

_INPUTS = (
    Input("landing-csv", "rows.csv", SAMPLES, ("import", "gpu_samples"), cells=",", has_header=True),
    Input(
        "landing-json-lines",
        "rows.jsonl",
        "".join(json.dumps(node) + "\n" for node in NODES),
        ("import", "nodes"),
    ),
    Input("sacct", "sacct.txt", SACCT, ("slurm", "--sacct-file"), cells="|", has_header=True),
    Input("sacct-json", "sacct.json", _recording("slurm", "recordings", "sacct.json"), ("slurm", "--sacct-file")),
    Input("sonar-csv", "sonar.csv", SONAR_CSV, ("slurm", "--sacct-file"), cells=","),
    Input(
        "dcgm",
        "2026-11-02T00-10-00Z.prom",
        scrape({SM: 0.5, GRAPHICS: 0.6, UTIL: 55, ENERGY: 123456, "DCGM_FI_DEV_FB_USED": 1024}) + "\n",
        ("dcgm",),
    ),
    Input("focus", "focus.csv", bill({}, {"BilledCost": "2"}), ("billing",), cells=",", has_header=True),
)
INPUTS: Mapping[str, Input] = {item.name: item for item in _INPUTS}


def _captures() -> Mapping[str, Input]:
    """The first part of each capture that a collector reads, where the captures are here; only the long form reads them."""
    found = {}
    for pattern, command in CAPTURED:
        for path in sorted(REAL_DATA.glob(pattern)):
            text = path.read_bytes()[:CAPTURE_BYTES].decode("utf-8", "surrogateescape")
            name = str(path.relative_to(REAL_DATA))
            found[name] = Input(name, path.name, text, command)
    return found


#: where the captures of each collector lie, and how it is called on them
CAPTURED = (
    ("fox-slurm/sacct-*", ("slurm", "--time-zone", "Europe/Oslo", "--sacct-file")),
    ("dcgm-exporter-*/*.prom", ("dcgm", "--node", "n1", "--at", AT)),
    ("focus-1.0-sample/*.csv", ("billing",)),
)
CAPTURE_BYTES = 8_000
CAPTURES = _captures()
