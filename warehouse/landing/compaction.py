"""Merge the many small files that landings leave into few, without a moment in which a row is there twice or not at all.

The small files of one table and day are merged into files sorted by the table's key. The merge is committed by one
outcome record that lists the new files and, as removed, the old ones: a reader of the records sees the rows in the old
files or in the new ones. The old files stay on disk for a grace period, so that a reader that listed them before keeps
working. Rows keep their `collection_run_id`, `landed_at` and `line_number`; of rows with one key the one landed last
stays. Outcome records are merged likewise: copied first, removed later.

    raw/compaction/<table>/dt=YYYY-MM-DD/<first>-<last>-<hash>-<number>.parquet
    raw/compaction/collection_runs/dt=YYYY-MM-DD/<collection_run_id>.parquet    status `compacted`
    raw/<source>/collection_runs/dt=YYYY-MM-DD/compacted-<hash>.parquet         copies of outcome records
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl

from warehouse.atomic import Staging, alone, replaced, sweep
from warehouse.home import Home
from warehouse.landing.damage import fault_of
from warehouse.landing.landings import write_outcome
from warehouse.landing.leftovers import GRACE, delete_leftovers
from warehouse.landing.outcomes import (
    COMPACTED,
    COMPACTED_OUTCOMES,
    REMEDY,
    LandedTable,
    current_files,
    is_compacted,
    landed_tables,
    outcome_files,
    outcome_frame,
    unreadable_outcomes,
)
from warehouse.landing.shape import LINEAGE, TABLES, Table
from warehouse.landing.writer import LandingError, sort_by_key, stamp, writing

logger = logging.getLogger(__name__)

SOURCE = "compaction"
#: rows of a merged file: sorting so many samples takes about 1 GB
TARGET_ROWS = 1_000_000
#: outcome records are merged where a source has this many that are not
OUTCOMES_AT_LEAST = 50


@dataclass(frozen=True)
class Merge:
    """One table and day: how many files and rows there were, and are."""

    table_name: str
    day: str
    files_before: int
    files_after: int
    rows_before: int
    rows_after: int


@dataclass(frozen=True)
class CompactionOutcome:
    """What a compaction did. `files_deleted` had been replaced more than the grace period ago."""

    merges: Sequence[Merge]
    outcomes_merged: int
    files_deleted: int
    staging_swept: int

    def summary(self) -> str:
        """The one line a command prints."""
        before, after = sum(merge.files_before for merge in self.merges), sum(merge.files_after for merge in self.merges)
        rows = sum(merge.rows_after for merge in self.merges)
        duplicates = sum(merge.rows_before for merge in self.merges) - rows
        text = f"compaction: {before} files of {len(self.merges)} partitions became {after} ({rows} rows"
        text += f", {duplicates} duplicates left out)" if duplicates else ")"
        return f"{text}, {self.outcomes_merged} outcome records merged, {self.files_deleted} replaced files deleted"


def compact(
    home: Home,
    *,
    older_than: timedelta = timedelta(0),
    tables: Iterable[str] | None = None,
    grace: timedelta = GRACE,
    delete_now: bool = False,
    target_rows: int = TARGET_ROWS,
    progress: Callable[[Merge], None] | None = None,
) -> CompactionOutcome:
    """Merge the small files landed more than `older_than` ago, then delete what was replaced more than `grace` ago.

    `delete_now` deletes what is replaced at once: only where nothing reads meanwhile. Raises
    BusyError while another compaction or retention runs, LandingError where the disk cannot be written.
    """
    settled_before = datetime.now(UTC).replace(tzinfo=None) - older_than
    grace = timedelta(0) if delete_now else grace
    with alone(home.raw, "maintenance"):
        if damaged := unreadable_outcomes(home.raw):
            raise LandingError(f"{damaged[0]} cannot be read; {REMEDY}. Nothing was compacted")
        swept = sweep(home.raw) + sweep(home.quarantine)
        merges = []
        names = set(tables) if tables is not None else {name for name, table in TABLES.items() if not table.is_reference}
        for table, day, files in _partitions(home.raw, landed_tables(home.raw), names, settled_before):
            merge = _merge(home, table, day, files, target_rows)
            if merge:
                merges.append(merge)
                if progress:
                    progress(merge)
        merged = compact_outcomes(home.raw, grace=grace)
        deleted = delete_leftovers(home, grace=grace)
    return CompactionOutcome(merges, merged, deleted, swept)


def _partitions(
    raw: Path, records: Sequence[LandedTable], names: set[str], landed_before: datetime
) -> Iterator[tuple[Table, str, list[str]]]:
    """(table, day, files) of what may be merged, in the order in which the files landed."""
    settled = {file for record in records if record.landed_at <= landed_before for file in record.files}
    damaged = {file for _, file in current_files(records) if file in settled and fault_of(raw / file)}
    for file in sorted(damaged):
        logger.warning("%s is damaged and stays as it is; land its input again", raw / file)
    settled -= damaged
    found: dict[tuple[str, str], list[str]] = {}
    for name, file in current_files(records):
        if name in names and file in settled:
            found.setdefault((name, Path(file).parent.name.removeprefix("dt=")), []).append(file)
    for (name, day), files in sorted(found.items()):
        yield TABLES[name], day, files


def _merge(home: Home, table: Table, day: str, files: Sequence[str], target_rows: int) -> Merge | None:
    counts = {file: _count_rows(home.raw / file) for file in files}
    # what was merged before and is large stays as it is, or a late row would rewrite the whole day
    small = [file for file in files if not (file.startswith(f"{SOURCE}/") and counts[file] >= target_rows // 2)]
    batches = [batch for batch in _batches(small, counts, target_rows) if len(batch) > 1]
    if not batches:
        return None
    replaced_files = [file for batch in batches for file in batch]
    run_id = f"{SOURCE}-{hashlib.sha256(json.dumps(batches).encode()).hexdigest()[:20]}"
    rows_after = 0
    written: list[str] = []
    with Staging(home.raw) as staging, writing(home.raw):
        for number, batch in enumerate(batches):
            rows = _merged(table, [home.raw / file for file in batch])
            rows_after += rows.height
            first, last = stamp(rows[table.time].min()), stamp(rows[table.time].max())
            name = f"{first}-{last}-{run_id.rsplit('-', 1)[1]}-{number:03d}.parquet"
            final = home.raw / SOURCE / table.name / f"dt={day}" / name
            rows.write_parquet(staging.path_for(final), compression="zstd", statistics=True)
            written.append(str(final.relative_to(home.raw)))
        staging.publish()
        write_outcome(home.raw, SOURCE, [maintenance_record(SOURCE, run_id, table.name, COMPACTED, written, replaced_files)])
    return Merge(table.name, day, len(replaced_files), len(written), sum(counts[file] for file in replaced_files), rows_after)


def _batches(files: Sequence[str], counts: Mapping[str, int], target_rows: int) -> list[list[str]]:
    """Files cut into batches of about equal rows, at most about `target_rows`, one of which fits into memory.

    A file's name begins with the time of its first and last row, so a batch holds what was read at about one time.
    """
    total = sum(counts[file] for file in files)
    parts = max(1, -(-total // target_rows))
    batches: list[list[str]] = [[] for _ in range(parts)]
    before = 0
    for file in sorted(files, key=lambda file: (Path(file).name, file)):
        batches[min(parts - 1, before * parts // max(1, total))].append(file)
        before += counts[file]
    return batches


def _merged(table: Table, paths: Sequence[Path]) -> pl.DataFrame:
    """The rows of files in the order of the table's key, of rows with one key the one landed last.

    A file may have been written when the table had fewer columns.
    """
    schema = {column.name: column.polars_type for column in (*table.columns, *LINEAGE)}
    scan = pl.scan_parquet(list(paths), schema=schema, missing_columns="insert", extra_columns="ignore", hive_partitioning=False)
    rows = sort_by_key(table, scan.collect(), "landed_at", "line_number", "collection_run_id")
    same_as_next = pl.all_horizontal(pl.col(name).eq_missing(pl.col(name).shift(-1)) for name in table.key)
    return rows.filter((pl.int_range(pl.len()) == pl.len() - 1) | ~same_as_next)


def _count_rows(path: Path) -> int:
    count: int = pl.scan_parquet(path).select(pl.len()).collect().item()
    return count


def maintenance_record(
    source: str, run_id: str, table_name: str, status: str, files: Sequence[str], removed: Sequence[str]
) -> dict[str, object]:
    """An outcome record that moves or removes rows: none landed, no day is touched, no `data_through_at` moves."""
    now = datetime.now(UTC).replace(tzinfo=None)
    return {
        "collection_run_id": run_id,
        "source": source,
        "table_name": table_name,
        "status": status,
        "inputs": "[]",
        "started_at": now,
        "landed_at": now,
        "rows_landed": 0,
        "rows_quarantined": 0,
        "files": json.dumps(list(files)),
        "removed_files": json.dumps(list(removed)),
        "clusters": "{}",
    }


def compact_outcomes(raw: Path, *, grace: timedelta = GRACE, at_least: int = OUTCOMES_AT_LEAST) -> int:
    """Copy the outcome records of each source into one file; return how many were not in one before.

    The copied files are deleted once the copy is older than `grace`: a reader that is listing the folders meanwhile
    must meet each record in at least one of the two.
    """
    merged = 0
    for folder in sorted(raw.glob("*/collection_runs")):
        source = folder.parent.name
        _delete_copied(raw, source, grace)
        paths = outcome_files(raw, source)
        compacted = [path for path in paths if is_compacted(path)]
        known = _run_ids(compacted)
        fresh = [path for path in paths if not is_compacted(path) and path.stem not in known]
        if len(fresh) < at_least:
            continue
        frame = outcome_frame(raw, source)
        if frame is None:
            continue
        frame = frame.sort("landed_at", "collection_run_id", "table_name")
        ids = "\n".join(frame["collection_run_id"].unique(maintain_order=True))
        newest: datetime = frame.select(pl.col("landed_at").max()).item()
        name = f"{COMPACTED_OUTCOMES}{hashlib.sha256(ids.encode()).hexdigest()[:20]}.parquet"
        with writing(raw), replaced(folder / f"dt={newest:%Y-%m-%d}" / name) as temporary:
            frame.write_parquet(temporary, compression="zstd")
        merged += len(fresh)
        if not grace:
            _delete_copied(raw, source, grace)
    return merged


def _delete_copied(raw: Path, source: str, grace: timedelta) -> None:
    """Delete the outcome files whose records are all in a compacted file that is older than `grace`."""
    paths = outcome_files(raw, source)
    now = datetime.now(UTC).timestamp()
    compacted = [path for path in paths if is_compacted(path)]
    # the largest holds what the smaller ones held; of equal ones the first stays
    settled = [path for path in compacted if now - path.stat().st_ctime >= grace.total_seconds()]
    contents = sorted(((_run_ids([path]), path) for path in settled), key=lambda item: -len(item[0]))
    covered: set[str] = set()
    for run_ids, path in contents:
        if covered and run_ids <= covered:
            path.unlink(missing_ok=True)
        covered |= run_ids
    for path in paths:
        if not is_compacted(path) and path.stem in covered:
            path.unlink(missing_ok=True)


def _run_ids(paths: Sequence[Path]) -> set[str]:
    return {run_id for path in paths for run_id in pl.read_parquet(path, columns=["collection_run_id"])["collection_run_id"]}
