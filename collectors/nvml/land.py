"""Land the spools of an agent, each as one landing. A process of its own: polars is not for one that stays.

    python -m collectors.nvml.land [--json] SPOOL…

A spool is removed after its landing is committed. Killed in between, it is landed again, which finds its own outcome: the
id of a landing follows from its rows.
"""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from collectors.nvml.schema import SOURCE
from collectors.nvml.spool import read
from collectors.parsed import Row, to_frame
from warehouse.home import Home
from warehouse.landing.conform import MALFORMED, Reject
from warehouse.landing.landings import CollectionOutcome, Landing, Window
from warehouse.landing.shape import TABLES
from warehouse.landing.values import parse_instant

#: rows per frame: bounds the memory of a host that reads 56 MIG instances every second
FRAME_ROWS = 20_000


@dataclass
class Summary:
    """What a spool says beside its rows, found in a first pass."""

    cluster: str = ""
    node: str = ""
    driver: str | None = None
    start_at: datetime | None = None
    end_at: datetime | None = None
    tables: dict[str, int] = field(default_factory=dict)
    holes: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    is_rewound: bool = False


def main(arguments: list[str]) -> int:
    """Land every spool given; 0 where all of them have landed."""
    landing = Landing(Home.from_environment())
    landed = [land(Path(name), landing, as_json="--json" in arguments) for name in arguments if name != "--json"]
    return 0 if all(landed) else 1


def land(path: Path, landing: Landing, *, as_json: bool) -> bool:
    """Land one spool and remove it; whether that is done. What it cannot land stays and is said on stderr."""
    try:
        with path.open("rb") as file:
            # a landing of the agent before may still be at work on it
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            summary = summarise(path)
            if not summary.cluster:
                print(f"{path}: no beginning, so no telling whose rows these are; removed", file=sys.stderr)
            elif summary.tables or summary.holes:
                report(land_rows(path, summary, landing), as_json=as_json)
            path.unlink(missing_ok=True)
    except FileNotFoundError:
        return True
    except BlockingIOError:
        return False
    except OSError as error:
        print(f"{SOURCE}: {error}", file=sys.stderr)
        return False
    return True


def summarise(path: Path) -> Summary:
    """The first pass over a spool: what it holds, and what could not be read of it."""
    found = Summary()
    for line in read(path):
        if isinstance(line, int):
            found.rejects.append(Reject(path.name, line, MALFORMED, "no line of a spool; the disk may be damaged"))
            continue
        kind, content = line
        if kind in TABLES:
            found.tables[kind] = found.tables.get(kind, 0) + 1
        elif kind == "begin":
            found.cluster, found.node, found.driver = content["cluster"], content["node"], content.get("driver")
            found.start_at = parse_instant(content["from"])
        elif kind == "end":
            found.end_at = parse_instant(content["until"])
        elif kind == "hole":
            found.holes[content["what"]] = content["why"]
            found.driver = content.get("driver", found.driver)
        elif kind == "note":
            found.notes.append(content["text"])
            found.is_rewound = found.is_rewound or content.get("is_rewound", False)
    return found


def land_rows(path: Path, summary: Summary, landing: Landing) -> CollectionOutcome:
    """One landing of all rows; the window tells until when this host's telemetry is known."""
    frames = {table: list(_frames(path, table, summary)) for table in sorted(summary.tables)}
    end_at = summary.end_at or max(
        (row_end for name in ("gpu_samples", "node_samples") for frame in frames.get(name, ()) if (row_end := _last_end(frame))),
        default=summary.start_at,
    )
    return landing.land(
        SOURCE,
        dict(frames),
        cluster=summary.cluster,
        inputs=[path.name],
        rejects=summary.rejects,
        window=Window(summary.start_at, end_at),
        gaps=summary.holes or None,
        source_version=summary.driver,
        notes=summary.notes,
    )


def report(outcome: CollectionOutcome, *, as_json: bool) -> None:
    print(outcome.as_json() if as_json else outcome.summary(), flush=True)
    for note in outcome.notes:
        print(f"note: {note}", file=sys.stderr)


def _frames(path: Path, table: str, summary: Summary) -> Iterator[pl.DataFrame]:
    rows: list[Row] = []
    for number, line in enumerate(read(path), 1):
        if isinstance(line, tuple) and line[0] == table:
            rows.append(complete(table, line[1], summary.cluster, summary.node) | {"line_number": number})
        # a landing that must drop what was told twice needs to see all rows of the table
        if len(rows) >= FRAME_ROWS and not summary.is_rewound:
            yield to_frame(rows)
            rows = []
    if rows:
        frame = to_frame(rows)
        key = [name for name in TABLES[table].key if name in frame.columns]
        # after the clock was set back the same time is told again, rightly now
        yield frame.unique(key, keep="last", maintain_order=True) if summary.is_rewound else frame


def complete(table: str, row: dict[str, Any], cluster: str, node: str) -> dict[str, Any]:
    """A row with what all rows of an agent share."""
    return {"cluster": cluster, "node": node} | row | ({"source": SOURCE} if table == "gpu_samples" else {})


def _last_end(frame: pl.DataFrame) -> datetime | None:
    """The end of the last row: of a spool whose agent was killed nobody says more."""
    starts = frame["interval_start_at"].str.to_datetime("%Y-%m-%dT%H:%M:%S%.fZ", strict=False)
    last = (starts + frame["interval_ms"].cast(pl.Duration("ms"))).max()
    return last if isinstance(last, datetime) else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
