"""Read the outcome records: what has landed, and which files hold it now.

A record is one small file. `warehouse.landing.compaction` copies many of them into one `compacted-<hash>.parquet` per source
and removes the small ones later; a record that is in both is read once. A file of records that cannot be read, and a name in a
record that leads out of the landing root, are told and passed over: the rest is read.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

#: status of the record of a compaction: `files` hold what `removed_files` held; nothing new has landed
COMPACTED = "compacted"
#: status of the record of a retention: `removed_files` are gone
EXPIRED = "expired"
#: file name of many outcome records in one
COMPACTED_OUTCOMES = "compacted-"

Read = TypeVar("Read")

logger = logging.getLogger(__name__)

REMEDY = "what landed with it is left out; land its input again, or bring the file back from a copy"

_DAY = re.compile(r"dt=\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True)
class LandedTable:
    """One table of one landing. `files` are relative to the landing root; `through` maps cluster → instant.

    Only records of status `landed` have brought rows; those of `compacted` and `expired` say where rows are now.
    """

    collection_run_id: str
    source: str
    cluster: str | None
    table_name: str
    status: str
    landed_at: datetime
    rows_landed: int
    rows_quarantined: int
    content_hash: str | None
    files: tuple[str, ...]
    removed_files: tuple[str, ...]
    through: Mapping[str, str | None]
    rejects: Mapping[str, int] = field(default_factory=dict)
    window_start_at: datetime | None = None
    window_end_at: datetime | None = None


def outcome_files(raw: Path, source: str = "*") -> list[Path]:
    """The committed outcome records, oldest name first."""
    return sorted(path for path in raw.glob(f"{source}/collection_runs/dt=*/*.parquet") if not path.name.startswith("."))


def is_compacted(path: Path) -> bool:
    """Whether an outcome file holds copies of many records."""
    return path.name.startswith(COMPACTED_OUTCOMES)


def is_committed(raw: Path, source: str, collection_run_id: str) -> bool:
    """Whether a landing with this id has been committed."""
    return bool(read_landing(raw, source, collection_run_id))


def read_landing(raw: Path, source: str, collection_run_id: str) -> list[LandedTable]:
    """The outcome of one landing, a row per table; empty where there is none."""

    def read() -> list[LandedTable]:
        found = list((raw / source / "collection_runs").glob(f"dt=*/{collection_run_id}.parquet"))
        for path in found or [path for path in outcome_files(raw, source) if is_compacted(path)]:
            frame = _read_each([path])
            if frame is not None and (frame := frame.filter(pl.col("collection_run_id") == collection_run_id)).height:
                return _records(frame)
        return []

    return _retried(read)


def outcome_frame(raw: Path, source: str = "*") -> pl.DataFrame | None:
    """All outcome records as one frame, one row per landing and table; None where nothing has landed."""

    def read() -> pl.DataFrame | None:
        paths = outcome_files(raw, source)
        if not paths:
            return None
        found = [_read_together([path for path in paths if is_compacted(path)])]
        known = set() if found[0] is None else set(found[0]["collection_run_id"])
        found.append(_read_together([path for path in paths if not is_compacted(path) and path.stem not in known]))
        frames = [frame for frame in found if frame is not None]
        if not frames:
            return None
        frame = pl.concat(frames, how="diagonal_relaxed")
        return frame.unique(["collection_run_id", "table_name"], keep="first", maintain_order=True)

    return _retried(read)


def landed_tables(raw: Path, source: str = "*") -> list[LandedTable]:
    """Every landing's tables, in the order in which they landed."""
    frame = outcome_frame(raw, source)
    return [] if frame is None else _records(frame)


def current_files(records: Sequence[LandedTable]) -> Iterator[tuple[str, str]]:
    """(table, file) of every data file that exists: listed by a landing and not replaced by a compaction."""
    removed = {file for record in records for file in record.removed_files}
    seen: set[str] = set()
    for record in records:
        for file in record.files:
            if file not in removed and file not in seen:
                seen.add(file)
                yield record.table_name, file


def unreadable_outcomes(raw: Path) -> list[Path]:
    """Files of outcome records that cannot be read: what landed with them is not known."""
    paths = outcome_files(raw)
    try:
        if paths:
            pl.read_parquet(paths, columns=["collection_run_id", "table_name", "files"])
    except pl.exceptions.PolarsError:
        return [path for path in paths if path.exists() and _read_each([path], tell=False) is None]
    except FileNotFoundError:
        pass
    return []


def _read_together(paths: Sequence[Path]) -> pl.DataFrame | None:
    if not paths:
        return None
    try:
        return pl.read_parquet(list(paths), missing_columns="insert")
    except pl.exceptions.PolarsError:
        return _read_each(paths)


def _read_each(paths: Sequence[Path], *, tell: bool = True) -> pl.DataFrame | None:
    """The records of the files that can be read; a damaged one is named, and costs what it holds and no more."""
    frames = []
    for path in paths:
        try:
            frame = pl.read_parquet(path)
            if not {"collection_run_id", "table_name", "files"} <= set(frame.columns):
                raise pl.exceptions.ColumnNotFoundError("it is no outcome record")
            frames.append(frame)
        except pl.exceptions.PolarsError as error:
            if tell:
                said = str(error).splitlines()[0][:200]
                logger.warning("%s cannot be read (%s): %s", path, said, REMEDY)
    return pl.concat(frames, how="diagonal_relaxed") if frames else None


def _inside(run_id: str, text: str | None) -> tuple[str, ...]:
    """The files of a record, without names that lead out of the landing root: hosts that land there are not all trusted alike."""
    names = json.loads(text or "[]")
    good = tuple(name for name in names if is_inside(name))
    if len(good) < len(names):
        logger.warning("landing %s names files outside of the landing root: they are left out", run_id)
    return good


def is_inside(name: str) -> bool:
    """Whether a file's name, relative to the landing root, stays below it and is a data file of a day."""
    parts = name.split("/")
    return (
        len(parts) == 4
        and not any(part in ("", ".", "..") or "\0" in part or "\\" in part for part in parts)
        and _DAY.fullmatch(parts[2]) is not None
    )


def _retried(read: Callable[[], Read]) -> Read:
    """Read again where a file has gone since the folder was listed: its record is in a compacted file by then."""
    for _ in range(4):
        try:
            return read()
        except FileNotFoundError:
            continue
    return read()


def _records(frame: pl.DataFrame) -> list[LandedTable]:
    records = [_record(row) for row in frame.iter_rows(named=True)]
    return sorted(records, key=lambda record: (record.landed_at, record.collection_run_id))


def _record(row: Mapping[str, Any]) -> LandedTable:
    return LandedTable(
        collection_run_id=row["collection_run_id"],
        source=row["source"],
        cluster=row["cluster"],
        table_name=row["table_name"],
        status=row["status"],
        landed_at=row["landed_at"],
        rows_landed=row["rows_landed"],
        rows_quarantined=row["rows_quarantined"],
        content_hash=row["content_hash"],
        files=_inside(row["collection_run_id"], row["files"]),
        removed_files=_inside(row["collection_run_id"], row["removed_files"]),
        through=json.loads(row["clusters"] or "{}"),
        rejects=json.loads(row["rejects"] or "{}"),
        window_start_at=row["window_start_at"],
        window_end_at=row["window_end_at"],
    )
