"""Write the rows and the rejects of one landing into staging, frame by frame, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from warehouse.atomic import Staging
from warehouse.home import Home
from warehouse.landing.conform import LAST_INSTANT, Reject
from warehouse.landing.shape import Table

#: partition of rows whose time is null (a rule that was always valid)
UNDATED = "1970-01-01"
#: small frames are put together until they hold this many rows, so that a file is not cut finer than need be
FILE_ROWS = 400_000
#: rejects of which an outcome carries the rows; all of them are in the quarantine
SHOWN_REJECTS = 1000
#: rejects per quarantine file: bounds memory where every row of a large file is bad
QUARANTINE_ROWS = 100_000


@dataclass(frozen=True)
class Window:
    """A half-open stretch of time `[start_at, end_at)`, naive UTC."""

    start_at: datetime | None
    end_at: datetime | None


class LandingError(OSError):
    """The landing root cannot be written; the old state stands."""


@dataclass
class Landed:
    """What has been written of one table."""

    rows: int = 0
    files: list[str] = field(default_factory=list)
    first: datetime | None = None
    last: datetime | None = None
    last_by_cluster: dict[str, datetime] = field(default_factory=dict)


class LandingWriter:
    """Stages the rows and the rejects of one landing."""

    def __init__(
        self,
        home: Home,
        source: str,
        cluster: str | None,
        run_id: str,
        landed_at: datetime,
        staging: Staging,
        quarantine: Staging,
    ) -> None:
        self._home, self._source, self._cluster, self._run_id, self._landed_at = home, source, cluster, run_id, landed_at
        self._staging, self._quarantine = staging, quarantine
        self._waiting: list[pl.DataFrame] = []
        self._waiting_table: Table | None = None
        self._rejects: list[Reject] = []
        self._numbers: Counter[tuple[str, str]] = Counter()
        self.tables: dict[str, Landed] = {}
        self.reasons: Counter[str] = Counter()
        self.shown: list[Reject] = []

    def rows(self) -> dict[str, int]:
        return {name: landed.rows for name, landed in self.tables.items()}

    def extent(self) -> Window:
        starts = [landed.first for landed in self.tables.values() if landed.first]
        ends = [landed.last for landed in self.tables.values() if landed.last]
        return Window(min(starts, default=None), max(ends, default=None))

    def write(self, table: Table, rows: pl.DataFrame) -> None:
        """Stage rows, together with those before them where the frames are small."""
        if self._waiting_table is not table:
            self._flush_rows()
        if rows.height:
            self._waiting_table = table
            self._waiting.append(rows)
            if sum(frame.height for frame in self._waiting) >= FILE_ROWS:
                self._flush_rows()

    def reject(self, rejects: Sequence[Reject]) -> None:
        self.reasons.update(reject.reason for reject in rejects)
        self.shown += rejects[: max(0, SHOWN_REJECTS - len(self.shown))]
        self._rejects += rejects
        if len(self._rejects) >= QUARANTINE_ROWS:
            self._flush_rejects()

    def finish(self) -> None:
        self._flush_rows()
        self._flush_rejects()

    def _flush_rows(self) -> None:
        table, frames = self._waiting_table, self._waiting
        self._waiting_table, self._waiting = None, []
        if table is None or not frames:
            return
        rows = frames[0] if len(frames) == 1 else pl.concat(frames)
        frames.clear()
        landed = self.tables.setdefault(table.name, Landed())
        self._note_instants(landed, table, rows)
        landed.rows += rows.height
        days = rows[table.time].dt.date()
        if days.null_count() == 0 and days.min() == days.max():
            self._stage(landed, table, str(days[0]), rows)
            return
        named = rows.with_columns(days.dt.strftime("%Y-%m-%d").fill_null(UNDATED).alias("dt"))
        for (day,), day_rows in sorted(named.partition_by("dt", as_dict=True, include_key=False).items()):
            self._stage(landed, table, str(day), day_rows)

    def _stage(self, landed: Landed, table: Table, day: str, rows: pl.DataFrame) -> None:
        if table.group == "telemetry":
            rows = sort_by_key(table, rows)
        number = self._numbers[table.name, day]
        self._numbers[table.name, day] += 1
        first, last = stamp(rows[table.time].min()), stamp(rows[table.time].max())
        final = (
            self._home.raw / self._source / table.name / f"dt={day}"
            / f"{first}-{last}-{self._run_id.rsplit('-', 1)[1]}-{number:03d}.parquet"
        )  # fmt: skip
        rows = rows.with_columns(
            pl.lit(self._run_id).alias("collection_run_id"), pl.lit(self._landed_at).cast(pl.Datetime("us")).alias("landed_at")
        )
        with writing(self._home.raw):
            # the first level of zstd: compaction packs better, and this is what a landing's time goes into
            rows.write_parquet(self._staging.path_for(final), compression="zstd", compression_level=1, statistics=True)
        landed.files.append(str(final.relative_to(self._home.raw)))

    def _note_instants(self, landed: Landed, table: Table, rows: pl.DataFrame) -> None:
        starts, ends = rows[table.time].min(), rows.select(last_instant(table).max()).item()
        landed.first = min((start for start in (landed.first, starts) if isinstance(start, datetime)), default=None)
        landed.last = max((end for end in (landed.last, ends) if isinstance(end, datetime)), default=None)
        if "cluster" not in rows.columns:
            return
        for name, end in rows.group_by("cluster").agg(last_instant(table).max()).iter_rows():
            if name and end:
                landed.last_by_cluster[name] = max(end, landed.last_by_cluster.get(name, end))

    def _flush_rejects(self) -> None:
        if not self._rejects:
            return
        number = self._numbers["", ""]
        self._numbers["", ""] += 1
        frame = pl.DataFrame(
            [
                {**asdict(reject), "source": self._source, "cluster": self._cluster, "collection_run_id": self._run_id}
                for reject in self._rejects
            ],
            schema_overrides={"line": pl.Int64, "cluster": pl.String},
            infer_schema_length=None,
        ).with_columns(pl.lit(self._landed_at).alias("quarantined_at"))
        self._rejects = []
        name = f"{self._run_id}-{number:03d}.parquet" if number else f"{self._run_id}.parquet"
        final = self._home.quarantine / self._source / f"dt={self._landed_at:%Y-%m-%d}" / name
        with writing(self._home.quarantine):
            frame.write_parquet(self._quarantine.path_for(final))


def sort_by_key(table: Table, rows: pl.DataFrame, *more: str) -> pl.DataFrame:
    """Rows in the order of the table's key, then of `more`; columns of one value are left out of the comparison."""
    names = [name for name in (*table.key, *more) if name in rows.columns and not _is_constant(rows[name])]
    return rows.sort(names, maintain_order=True) if names else rows


def _is_constant(values: pl.Series) -> bool:
    if values.null_count():
        return values.null_count() == len(values)
    return len(values) < 2 or bool((values == values[0]).all())


def last_instant(table: Table) -> pl.Expr:
    """The last instant a row speaks of: the end of its interval, or the last time stamped."""
    names = [column.name for column in table.columns]
    if {"interval_start_at", "interval_ms"} <= set(names):
        # a length that leads beyond what a clock can say must not stop the landing
        end = pl.col("interval_start_at").to_physical() + pl.col("interval_ms").clip(0, 10**14) * 1000
        return end.clip(upper_bound=LAST_INSTANT).cast(pl.Datetime("us"))
    return pl.max_horizontal(column.name for column in table.columns if column.kind == "timestamp")


@contextmanager
def writing(root: Path) -> Iterator[None]:
    """Say what to do where the disk is full or closed to us; Polars reports both as errors of its own."""
    try:
        yield
    except (OSError, pl.exceptions.PolarsError) as error:
        raise LandingError(
            f"cannot write below {root}: {error}; nothing was landed; make room or give access, then land again"
        ) from error


def stamp(instant: Any) -> str:
    # Python writes the year 1 as `1`
    return instant.isoformat(timespec="seconds").replace("-", "").replace(":", "") if instant is not None else "undated"
