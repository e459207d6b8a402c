"""Land rows as Parquet so that a reader sees a landing whole or not at all.

Data files are written into a staging folder, frame by frame, so that memory holds one frame whatever the size of the
input; after the last frame they are renamed to names that follow from source, window and content; the outcome record
(`raw/<source>/collection_runs/…`) is renamed into place last and lists them. A data file that no outcome record
lists does not exist for the build: a landing killed at any point therefore leaves the old state, and what it leaves
behind is removed by the next landing (staging folders) or compaction (renamed files without a record). Landing the
same input again finds its own outcome record and changes nothing.

    raw/.staging/<host>-<pid>-<id>/…                                            unfinished
    raw/<source>/<table>/dt=YYYY-MM-DD/<first>-<last>-<hash>-<number>.parquet
    raw/<source>/collection_runs/dt=YYYY-MM-DD/<collection_run_id>.parquet      the commit
    quarantine/<source>/dt=YYYY-MM-DD/<collection_run_id>.parquet               rows left out, with file, line, reason
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from warehouse.atomic import Staging, replaced, sweep
from warehouse.home import Home
from warehouse.landing.conform import Reject, conform, without_future
from warehouse.landing.content import RowsHash, hash_landing
from warehouse.landing.damage import fault_of
from warehouse.landing.masking import mask, mask_json, redact
from warehouse.landing.outcomes import current_files, is_committed, landed_tables, read_landing
from warehouse.landing.shape import COLLECTION_RUNS, TABLES, Table
from warehouse.landing.writer import SHOWN_REJECTS, Landed, LandingError, LandingWriter, Window, writing

__all__ = ["CollectionOutcome", "Frames", "Landing", "LandingError", "Piece", "Window", "read_quarantine", "write_outcome"]


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
    window: Window = field(default_factory=lambda: Window(None, None))
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


#: a frame of rows, with the rejects that its reader found beside them
Piece = pl.DataFrame | tuple[pl.DataFrame, Sequence[Reject]]
Frames = pl.DataFrame | Iterable[Piece]


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
        content: str | None = None,
        before_commit: Callable[[str], None] = lambda run_id: None,
    ) -> CollectionOutcome:
        """Conform the frames, write them, commit them by their outcome record.

        `tables` maps a landing table to its rows, a frame or, where it is too big for one, several. `window` is what
        the source was asked for; without one the last instant landed stands for its end (`data_through_at`).
        `content` is a hash of the input that is known before its rows are (`warehouse.landing.content.hash_files`): with it
        frames are written as they come, without it they are hashed first and held in memory until then.
        `before_commit` is called with the landing's id before its outcome record is written, or where it finds its own.

        Raises LandingError where the disk cannot be written, and what reading the frames raises; both leave the old
        state.
        """
        started_at = _now()
        file = ", ".join(inputs) or source
        for root in (self.home.raw, self.home.quarantine):
            sweep(root)
        conformed: Iterable[_Conformed] = _conformed(_pieces(tables), file, started_at)
        identity: str | Mapping[str, str] = content or {}
        if content is None:
            conformed = list(conformed)
            identity = _hash_rows(conformed, rejects)
        asked = (window.start_at, window.end_at) if window else None
        content_hash = hash_landing(source, cluster, identity, asked, gaps)
        run_id, known = self._run_id(source, content_hash, tables)
        if known:
            before_commit(run_id)
            return self._already_landed(source, cluster, run_id, window, notes)
        with Staging(self.home.raw) as staging, Staging(self.home.quarantine) as quarantine:
            writer = LandingWriter(self.home, source, cluster, run_id, started_at, staging, quarantine)
            writer.reject(rejects)
            for piece in conformed:
                writer.reject([*piece.read_rejects, *piece.rejects])
                writer.write(piece.table, piece.rows)
            writer.finish()
            extent = window or writer.extent()
            outcome = CollectionOutcome(
                source, cluster, "landed", run_id, writer.rows(), writer.reasons.total(), dict(writer.reasons),
                extent, None, writer.shown, notes,
            )  # fmt: skip
            if not writer.tables and not writer.reasons and window is None:
                return replace(outcome, status="nothing", collection_run_id=None)
            with writing(self.home.raw):
                # the rejects first: what the outcome counts can be looked up from the moment it is there
                quarantine.publish()
                staging.publish()
                before_commit(run_id)
                record = _Record(outcome, started_at, content_hash, inputs, gaps, source_version, window)
                write_outcome(self.home.raw, source, record.rows(writer.tables))
        return outcome

    def record_failure(
        self, source: str, error: str, *, cluster: str | None = None, inputs: Sequence[str] = ()
    ) -> CollectionOutcome:
        """Leave an outcome record of a source that could not be read; nothing else is written.

        Where even that cannot be written (a full disk is a common failure) the outcome is returned all the same.
        """
        now, error = _now(), mask(redact(error))
        run_id = f"{source}-failed-{now:%Y%m%dT%H%M%S%f}"
        outcome = CollectionOutcome(source, cluster, "failed", run_id, error=error)
        try:
            with writing(self.home.raw):
                write_outcome(self.home.raw, source, _Record(outcome, now, None, inputs, None, None, None).rows({}))
        except LandingError as unwritten:
            return replace(outcome, collection_run_id=None, notes=[f"the failure could not be recorded: {unwritten}"])
        return outcome

    def _run_id(self, source: str, content_hash: str, tables: Iterable[str]) -> tuple[str, bool]:
        """The landing's id from its content, and whether it has landed before.

        A reference table is an exception: landing an older state again makes it current, so only the newest state of
        the table counts as landed, and the id then names the state it follows.
        """
        run_id = f"{source}-{content_hash[:20]}"
        if not is_committed(self.home.raw, source, run_id) or self._is_damaged(source, run_id):
            return run_id, False
        names = {name for name in tables if TABLES[name].is_reference}
        if not names:
            return run_id, True
        newest = [record for record in landed_tables(self.home.raw, source) if record.table_name in names][-1:]
        if not newest or newest[0].content_hash == content_hash:
            return run_id, True
        after = hashlib.sha256(f"{content_hash} after {newest[0].collection_run_id}".encode()).hexdigest()
        return f"{source}-{after[:20]}", False

    def _is_damaged(self, source: str, run_id: str) -> bool:
        """Whether a file of the landing is gone or cut off that no compaction and no retention took away: it is written again."""
        files = {file for record in read_landing(self.home.raw, source, run_id) for file in record.files}
        damaged = {file for file in files if fault_of(self.home.raw / file)}
        return bool(damaged) and bool(damaged & {file for _, file in current_files(landed_tables(self.home.raw))})

    def _already_landed(
        self, source: str, cluster: str | None, run_id: str, window: Window | None, notes: Sequence[str]
    ) -> CollectionOutcome:
        """What the landing said when it landed, from its outcome record."""
        records = read_landing(self.home.raw, source, run_id)
        rejects = next((record.rejects for record in records if record.rejects), {})
        landed = {record.table_name: record.rows_landed for record in records if record.table_name}
        quarantined = sum(record.rows_quarantined for record in records)
        extent = window or Window(records[0].window_start_at, records[0].window_end_at)
        shown = read_quarantine(self.home, source, run_id)
        return CollectionOutcome(
            source, cluster, "already_landed", run_id, landed, quarantined, rejects, extent, None, shown, notes
        )  # fmt: skip


@dataclass(frozen=True)
class _Conformed:
    """Rows of one table ready to be written, with what reading and conforming them left out."""

    table: Table
    rows: pl.DataFrame
    read_rejects: Sequence[Reject]
    rejects: Sequence[Reject]


def _pieces(tables: Mapping[str, Frames]) -> Iterator[tuple[Table, Piece]]:
    for name, frames in tables.items():
        for piece in [frames] if isinstance(frames, pl.DataFrame) else frames:
            yield TABLES[name], piece


def _conformed(pieces: Iterable[tuple[Table, Piece]], file: str, now: datetime) -> Iterator[_Conformed]:
    for table, piece in pieces:
        frame, found = (piece, ()) if isinstance(piece, pl.DataFrame) else piece
        checked = without_future(table, conform(table, frame, file), file, now)
        if checked.rows.height or checked.rejects or found:
            yield _Conformed(table, checked.rows, found, checked.rejects)


@dataclass(frozen=True)
class _Record:
    """The outcome record of a landing: a row per table, or one without a table."""

    outcome: CollectionOutcome
    started_at: datetime
    content_hash: str | None
    inputs: Sequence[str]
    gaps: Mapping[str, str] | None
    source_version: str | None
    window: Window | None

    def rows(self, tables: Mapping[str, Landed]) -> list[dict[str, Any]]:
        outcome = self.outcome
        landed_at = _now()
        records = []
        for position, (name, landed) in enumerate((tables or {"": Landed()}).items()):
            through = self.window.end_at if self.window and self.window.end_at else landed.last
            records.append(
                {
                    "collection_run_id": outcome.collection_run_id,
                    "source": outcome.source,
                    "cluster": outcome.cluster,
                    "table_name": name,
                    "status": outcome.status,
                    "error": outcome.error,
                    "source_version": self.source_version and mask(self.source_version),
                    "inputs": json.dumps([mask(Path(item).name) for item in self.inputs]),
                    "window_start_at": outcome.window.start_at,
                    "window_end_at": outcome.window.end_at,
                    "data_through_at": through,
                    "started_at": self.started_at,
                    "landed_at": landed_at,
                    "rows_landed": landed.rows,
                    # the rejects of a landing are counted once, beside its first table
                    "rows_quarantined": outcome.rows_quarantined if position == 0 else 0,
                    "rejects": json.dumps(outcome.rejects) if outcome.rejects and position == 0 else None,
                    "gaps": mask_json(json.dumps(self.gaps)) if self.gaps else None,
                    "content_hash": self.content_hash,
                    "files": json.dumps(landed.files),
                    "removed_files": None,
                    "clusters": json.dumps(self._through_by_cluster(landed), sort_keys=True),
                }
            )
        return records

    def _through_by_cluster(self, landed: Landed) -> dict[str, str]:
        """Cluster → the instant through which this landing knows it, ISO 8601 without zone."""
        asked = self.window.end_at if self.window else None
        if asked and self.outcome.cluster:
            return {self.outcome.cluster: asked.isoformat()}
        return {name: (asked or end).isoformat() for name, end in landed.last_by_cluster.items()}


def write_outcome(raw: Path, source: str, records: Sequence[Mapping[str, Any]]) -> None:
    """Rename an outcome record into place: the moment from which its files exist and the files it removes do not."""
    schema = {column.name: column.polars_type for column in COLLECTION_RUNS.columns}
    landed_at: datetime = records[0]["landed_at"]
    path = raw / source / "collection_runs" / f"dt={landed_at:%Y-%m-%d}" / f"{records[0]['collection_run_id']}.parquet"
    with replaced(path) as temporary:
        pl.DataFrame(records, schema=schema).write_parquet(temporary)


def read_quarantine(home: Home, source: str, run_id: str) -> list[Reject]:
    """The first `SHOWN_REJECTS` rows that a landing left out."""
    paths = sorted((home.quarantine / source).glob(f"dt=*/{run_id}*.parquet"))
    if not paths:
        return []
    frame = pl.read_parquet(paths, n_rows=SHOWN_REJECTS, columns=["file", "line", "reason", "detail", "text"])
    return [Reject(*row) for row in frame.iter_rows()]


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


def _hash_rows(pieces: Iterable[_Conformed], rejects: Iterable[Reject]) -> dict[str, str]:
    """Hashes of the rows by table, and of what was left out."""
    rows = RowsHash()
    left_out = [hashlib.sha256() for _ in range(3)]
    _hash_rejects(left_out[0], rejects)
    for piece in pieces:
        rows.add(piece.table.name, piece.rows)
        # two digests, or the order would depend on how the rows were cut into frames
        _hash_rejects(left_out[1], piece.read_rejects)
        _hash_rejects(left_out[2], piece.rejects)
    return {**rows.digests(), "rejects": " ".join(digest.hexdigest() for digest in left_out)}


def _hash_rejects(digest: Any, rejects: Iterable[Reject]) -> None:
    """Hash what was left out; the file's name is not part of it, since a copy of a file is the same file."""
    for reject in rejects:
        digest.update(repr((reject.line, reject.reason, reject.detail, reject.text)).encode())
