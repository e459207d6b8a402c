"""Read the outcome records: what has landed, and which files hold it now."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import polars as pl


@dataclass(frozen=True)
class LandedTable:
    """One table of one landing. `files` are relative to the landing root; `through` maps cluster → instant."""

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


def outcome_files(raw: Path, source: str = "*") -> list[Path]:
    """The committed outcome records, oldest name first."""
    return sorted(path for path in raw.glob(f"{source}/collection_runs/dt=*/*.parquet") if not path.name.startswith("."))


def is_committed(raw: Path, source: str, collection_run_id: str) -> bool:
    """Whether a landing with this id has been committed."""
    return any((raw / source / "collection_runs").glob(f"dt=*/{collection_run_id}.parquet"))


def outcome_frame(raw: Path, source: str = "*") -> pl.DataFrame | None:
    """All outcome records as one frame, one row per landing and table; None where nothing has landed."""
    paths = outcome_files(raw, source)
    if not paths:
        return None
    return pl.read_parquet(paths, missing_columns="insert").unique(
        ["collection_run_id", "table_name"], keep="any", maintain_order=True
    )


def landed_tables(raw: Path, source: str = "*") -> list[LandedTable]:
    """Every landing's tables, in the order in which they landed."""
    frame = outcome_frame(raw, source)
    if frame is None:
        return []
    records = [
        LandedTable(
            collection_run_id=row["collection_run_id"],
            source=row["source"],
            cluster=row["cluster"],
            table_name=row["table_name"],
            status=row["status"],
            landed_at=row["landed_at"],
            rows_landed=row["rows_landed"],
            rows_quarantined=row["rows_quarantined"],
            content_hash=row["content_hash"],
            files=tuple(json.loads(row["files"] or "[]")),
            removed_files=tuple(json.loads(row["removed_files"] or "[]")),
            through=json.loads(row["clusters"] or "{}"),
        )
        for row in frame.iter_rows(named=True)
    ]
    return sorted(records, key=lambda record: (record.landed_at, record.collection_run_id))


def current_files(records: Sequence[LandedTable]) -> Iterator[tuple[str, str]]:
    """(table, file) of every data file that exists: listed by a landing and not replaced by a compaction."""
    removed = {file for record in records for file in record.removed_files}
    seen: set[str] = set()
    for record in records:
        for file in record.files:
            if file not in removed and file not in seen:
                seen.add(file)
                yield record.table_name, file
