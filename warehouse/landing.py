"""Land rows as Parquet so that a reader sees a landing whole or not at all.

Data files are written first, under names that follow from source, window and content; the outcome record
(`raw/<source>/collection_runs/…`) is renamed into place last and lists them. A data file that no outcome record
lists does not exist for the build: a landing killed at any point therefore leaves the old state. Landing the same
input again finds its own outcome record and changes nothing.

    raw/<source>/<table>/dt=YYYY-MM-DD/<first>-<last>-<hash>.parquet
    raw/<source>/collection_runs/dt=YYYY-MM-DD/<collection_run_id>.parquet      the commit
    quarantine/<source>/dt=YYYY-MM-DD/<collection_run_id>.parquet               rows left out, with file, line, reason
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from warehouse.atomic import replaced
from warehouse.conform import Reject, conform
from warehouse.home import Home
from warehouse.landing_shape import COLLECTION_RUNS, LINEAGE, TABLES, Table
from warehouse.outcomes import is_committed, landed_tables

#: partition of rows whose time is null (a rule that was always valid)
UNDATED = "1970-01-01"


@dataclass(frozen=True)
class Window:
    """A half-open stretch of time `[start_at, end_at)`, naive UTC."""

    start_at: datetime | None
    end_at: datetime | None


@dataclass(frozen=True)
class CollectionOutcome:
    """What a collector did: one of `landed`, `already_landed`, `nothing` (no rows) or `failed`."""

    source: str
    cluster: str | None
    status: str
    collection_run_id: str | None = None
    rows: Mapping[str, int] = field(default_factory=dict)
    rows_quarantined: int = 0
    rejects: Mapping[str, int] = field(default_factory=dict)
    window: Window = Window(None, None)
    error: str | None = None
    rejected_rows: Sequence[Reject] = ()
    notes: Sequence[str] = ()

    @property
    def rows_landed(self) -> int:
        return sum(self.rows.values())

    def summary(self) -> str:
        """The one line a command prints."""
        tables = ", ".join(f"{count} {table}" for table, count in self.rows.items()) or "0 rows"
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.rejects.items())
        text = f"{self.source}: {self.status.replace('_', ' ')} {tables}, {self.rows_quarantined} quarantined"
        text += f" ({reasons})" if reasons else ""
        if self.window.start_at and self.window.end_at:
            text += f", {self.window.start_at:%Y-%m-%dT%H:%M:%SZ} to {self.window.end_at:%Y-%m-%dT%H:%M:%SZ}"
        return text + (f": {self.error}" if self.error else "")

    def as_json(self) -> str:
        record = asdict(self)
        record["rows_landed"] = self.rows_landed
        return json.dumps(
            record, default=lambda value: f"{value:%Y-%m-%dT%H:%M:%S.%fZ}" if isinstance(value, datetime) else str(value)
        )


Frames = pl.DataFrame | Iterable[pl.DataFrame]


class Landing:
    """Writes below one landing root. Any number of processes may land at once: no file is shared between them."""

    def __init__(self, home: Home) -> None:
        self.home = home.create()

    def land(
        self,
        source: str,
        tables: Mapping[str, Frames],
        *,
        cluster: str | None = None,
        inputs: Sequence[str] = (),
        rejects: Sequence[Reject] = (),
        window: Window | None = None,
        gaps: Mapping[str, str] | None = None,
        source_version: str | None = None,
        notes: Sequence[str] = (),
    ) -> CollectionOutcome:
        """Conform the frames, write them, commit them by their outcome record.

        `tables` maps a landing table to its rows, a frame or, where it is too big for one, several. `window` is what
        the source was asked for; without one the last instant landed stands for its end (`data_through_at`).
        """
        started_at = _now()
        file = ", ".join(inputs) or source
        all_rejects = list(rejects)
        written: list[_Written] = []
        for name, frames in tables.items():
            table = TABLES[name]
            for frame in [frames] if isinstance(frames, pl.DataFrame) else frames:
                conformed = conform(table, frame, file)
                all_rejects += conformed.rejects
                if conformed.rows.height:
                    written.append(_Written(table, conformed.rows))
        content = _content_hash(source, cluster, written, all_rejects)
        run_id = self._run_id(source, content, written)
        rejected = dict(Counter(reject.reason for reject in all_rejects))
        rows: dict[str, int] = {}
        for part in written:
            rows[part.table.name] = rows.get(part.table.name, 0) + part.rows.height
        outcome = CollectionOutcome(
            source,
            cluster,
            "landed",
            run_id,
            rows,
            len(all_rejects),
            rejected,
            window or _extent(written),
            None,
            all_rejects,
            notes,
        )
        if run_id is None:
            return CollectionOutcome(**{**_shallow(outcome), "status": "already_landed"})
        if not written and not all_rejects and window is None:
            return CollectionOutcome(**{**_shallow(outcome), "status": "nothing", "collection_run_id": None})
        landed_at = _now()
        files = self._write_rows(source, written, run_id, landed_at, content)
        if all_rejects:
            self._write_quarantine(source, cluster, run_id, landed_at, all_rejects)
        self._commit(outcome, files, written, started_at, landed_at, content, inputs, gaps, source_version, window)
        return outcome

    def record_failure(
        self, source: str, error: str, *, cluster: str | None = None, inputs: Sequence[str] = ()
    ) -> CollectionOutcome:
        """Leave an outcome record of a source that could not be read; nothing else is written."""
        now = _now()
        run_id = f"{source}-failed-{now:%Y%m%dT%H%M%S%f}"
        outcome = CollectionOutcome(source, cluster, "failed", run_id, error=error)
        self._commit(outcome, {}, [], now, now, None, inputs, None, None, None)
        return outcome

    def _run_id(self, source: str, content: str, written: Sequence[_Written]) -> str | None:
        """The landing's id from its content; None if it has landed before.

        A reference table is an exception: landing an older state again makes it current, so only the newest state of
        the table counts as landed, and the id then names the state it follows.
        """
        run_id = f"{source}-{content[:20]}"
        if not is_committed(self.home.raw, source, run_id):
            return run_id
        names = {part.table.name for part in written if part.table.is_reference}
        if not names:
            return None
        newest = [record for record in landed_tables(self.home.raw, source) if record.table_name in names][-1]
        if newest.content_hash == content:
            return None
        return f"{source}-{hashlib.sha256(f'{content} after {newest.collection_run_id}'.encode()).hexdigest()[:20]}"

    def _write_rows(
        self, source: str, written: Sequence[_Written], run_id: str, landed_at: datetime, content: str
    ) -> dict[str, list[str]]:
        files: dict[str, list[str]] = {}
        for number, part in enumerate(written):
            lineage = {"collection_run_id": run_id, "landed_at": landed_at}
            rows = part.rows.with_columns(pl.lit(value).cast(_lineage_type(name)).alias(name) for name, value in lineage.items())
            rows = rows.with_columns(pl.col(part.table.time).dt.strftime("%Y-%m-%d").fill_null(UNDATED).alias("dt"))
            if part.table.group == "telemetry":
                rows = rows.sort(*(name for name in part.table.key if name in rows.columns), maintain_order=True)
            for (day,), day_rows in rows.partition_by("dt", as_dict=True, include_key=False).items():
                first, last = _stamp(day_rows[part.table.time].min()), _stamp(day_rows[part.table.time].max())
                name = f"{first}-{last}-{run_id.rsplit('-', 1)[1]}-{number:03d}.parquet"
                path = self.home.raw / source / part.table.name / f"dt={day}" / name
                with replaced(path) as temporary:
                    day_rows.write_parquet(temporary, compression="zstd", statistics=True)
                files.setdefault(part.table.name, []).append(str(path.relative_to(self.home.raw)))
        return files

    def _write_quarantine(
        self, source: str, cluster: str | None, run_id: str, landed_at: datetime, rejects: Sequence[Reject]
    ) -> None:
        frame = pl.DataFrame(
            [{**asdict(reject), "source": source, "cluster": cluster, "collection_run_id": run_id} for reject in rejects],
            schema_overrides={"line": pl.Int64, "cluster": pl.String},
        ).with_columns(pl.lit(landed_at).alias("quarantined_at"))
        with replaced(self.home.quarantine / source / f"dt={landed_at:%Y-%m-%d}" / f"{run_id}.parquet") as temporary:
            frame.write_parquet(temporary)

    def _commit(
        self,
        outcome: CollectionOutcome,
        files: Mapping[str, Sequence[str]],
        written: Sequence[_Written],
        started_at: datetime,
        landed_at: datetime,
        content: str | None,
        inputs: Sequence[str],
        gaps: Mapping[str, str] | None,
        source_version: str | None,
        window: Window | None,
    ) -> None:
        rejects = json.dumps(outcome.rejects) if outcome.rejects else None
        records = []
        for position, name in enumerate(list(files) or [""]):
            parts = [part for part in written if part.table.name == name]
            through = (
                window.end_at
                if window and window.end_at
                else max((end for part in parts if (end := part.last_instant())), default=None)
            )
            records.append(
                {
                    "collection_run_id": outcome.collection_run_id,
                    "source": outcome.source,
                    "cluster": outcome.cluster,
                    "table_name": name,
                    "status": outcome.status,
                    "error": outcome.error,
                    "source_version": source_version,
                    "inputs": json.dumps([Path(item).name for item in inputs]),
                    "window_start_at": outcome.window.start_at,
                    "window_end_at": outcome.window.end_at,
                    "data_through_at": through,
                    "started_at": started_at,
                    "landed_at": landed_at,
                    "rows_landed": sum(part.rows.height for part in parts),
                    # the rejects of a landing are counted once, beside its first table
                    "rows_quarantined": outcome.rows_quarantined if position == 0 else 0,
                    "rejects": rejects if position == 0 else None,
                    "gaps": json.dumps(gaps) if gaps else None,
                    "content_hash": content,
                    "files": json.dumps(list(files.get(name, []))),
                    "removed_files": None,
                    "clusters": json.dumps(_through_by_cluster(parts, through, outcome.cluster, window), sort_keys=True),
                }
            )
        write_outcome(self.home.raw, outcome.source, records)


@dataclass(frozen=True)
class _Written:
    table: Table
    rows: pl.DataFrame

    def last_instant(self) -> datetime | None:
        """The last instant these rows speak of: the end of the last interval, or the last time stamped."""
        return _last_instant(self.table, self.rows)


def write_outcome(raw: Path, source: str, records: Sequence[Mapping[str, Any]]) -> None:
    """Rename an outcome record into place: the moment from which its files exist and the files it removes do not."""
    schema = {column.name: column.polars_type for column in COLLECTION_RUNS.columns}
    landed_at: datetime = records[0]["landed_at"]
    path = raw / source / "collection_runs" / f"dt={landed_at:%Y-%m-%d}" / f"{records[0]['collection_run_id']}.parquet"
    with replaced(path) as temporary:
        pl.DataFrame(records, schema=schema).write_parquet(temporary)


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


def _stamp(instant: Any) -> str:
    return f"{instant:%Y%m%dT%H%M%S}" if instant is not None else "undated"


def _shallow(outcome: CollectionOutcome) -> dict[str, Any]:
    return {name: getattr(outcome, name) for name in outcome.__dataclass_fields__}


def _lineage_type(name: str) -> Any:
    return next(column.polars_type for column in LINEAGE if column.name == name)


def _last_instant(table: Table, rows: pl.DataFrame) -> datetime | None:
    if {"interval_start_at", "interval_ms"} <= set(rows.columns):
        return rows.select((pl.col("interval_start_at") + pl.duration(milliseconds="interval_ms")).max()).item()  # type: ignore[no-any-return]
    instants = [column.name for column in table.columns if column.kind == "timestamp"]
    return max((value for name in instants if (value := rows[name].max()) is not None), default=None)  # type: ignore[return-value]


def _through_by_cluster(
    parts: Sequence[_Written], through: datetime | None, cluster: str | None, window: Window | None
) -> dict[str, str | None]:
    """Cluster → the instant through which this landing knows it, ISO 8601 without zone."""
    if window and window.end_at and cluster:
        return {cluster: window.end_at.isoformat()}
    ends: dict[str, datetime] = {}
    for part in parts:
        if "cluster" not in part.rows.columns:
            continue
        for (name,), rows in part.rows.partition_by("cluster", as_dict=True).items():
            end = window.end_at if window and window.end_at else _last_instant(part.table, rows)
            if name and end:
                ends[str(name)] = max(end, ends.get(str(name), end))
    return {name: end.isoformat() for name, end in ends.items()}


def _extent(written: Sequence[_Written]) -> Window:
    starts = [value for part in written if isinstance(value := part.rows[part.table.time].min(), datetime)]
    ends = [end for part in written if (end := part.last_instant())]
    return Window(min(starts, default=None), max(ends, default=None))


def _content_hash(source: str, cluster: str | None, written: Sequence[_Written], rejects: Sequence[Reject]) -> str:
    digest = hashlib.sha256(f"{source}\0{cluster}\0".encode())
    for part in written:
        digest.update(part.table.name.encode())
        part.rows.write_ipc(_HashWriter(digest))  # type: ignore[call-overload]
    for reject in rejects:
        digest.update(re.sub(r"^.*/", "", repr((reject.line, reject.reason, reject.detail, reject.text))).encode())
    return digest.hexdigest()


class _HashWriter:
    """A file to write to that keeps only the hash of what is written."""

    def __init__(self, digest: Any) -> None:
        self._digest = digest

    def write(self, data: bytes) -> int:
        self._digest.update(data)
        return len(data)

    def flush(self) -> None: ...
