"""`python -m collectors import TABLE FILE…`: land rows that already have the landing shape."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import polars as pl

from collectors import command
from collectors.tables.parse import read_pieces
from warehouse.landing.content import hash_files
from warehouse.landing.landings import CollectionOutcome, Landing, Piece
from warehouse.landing.shape import TABLES


def collect(table_name: str, files: tuple[Path, ...], cluster: str | None, landing: Landing) -> CollectionOutcome:
    """Land the rows of `files` in `table_name`; `cluster` fills the column where a row leaves it out.

    Raises SourceFailedError where a file cannot be read or is written to while it is.
    """
    table = TABLES[table_name]
    given = ("cluster",) if cluster else ()
    before = [_state(path) for path in files]

    def pieces() -> Iterator[Piece]:
        for path, state in zip(files, before, strict=True):
            for frame, rejects in read_pieces(path, table, given):
                yield _filled(frame, table_name, cluster), rejects
            if _state(path) != state:
                raise command.SourceFailedError(f"{path} changed while it was read; land it again when it is complete")

    return landing.land(
        "import",
        {table_name: pieces()},
        cluster=cluster,
        inputs=[str(path) for path in files],
        content=hash_files(files, table_name, *(path.suffix for path in files)),
    )


def _state(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _filled(frame: pl.DataFrame, table_name: str, cluster: str | None) -> pl.DataFrame:
    if cluster and any(column.name == "cluster" and column.required for column in TABLES[table_name].columns):
        frame = _with_default(frame, "cluster", cluster)
    if table_name == "gpu_samples":
        frame = _with_default(frame, "source", "import")
    return frame


def _with_default(frame: pl.DataFrame, name: str, value: str) -> pl.DataFrame:
    """The frame with `value` where the column is absent, null or an empty text."""
    if name not in frame.columns or frame[name].null_count() == frame.height:
        return frame.with_columns(pl.lit(value, dtype=pl.String).alias(name))
    if frame[name].dtype != pl.String:
        return frame
    empty = pl.col(name).is_null() | (pl.col(name).str.strip_chars() == "")
    return frame.with_columns(pl.when(empty).then(pl.lit(value)).otherwise(pl.col(name)).alias(name))


@click.command("import")
@click.argument("table", type=click.Choice(sorted(TABLES)))
@click.argument("files", nargs=-1, required=True, type=command.FILES)
@command.collector_options
def import_table(table: str, files: tuple[Path, ...], cluster: str | None, as_json: bool, strict: bool) -> None:
    """Land CSV, JSON lines or Parquet files that already have the landing shape."""
    with command.source("import", cluster=cluster, inputs=files):
        outcome = collect(table, files, cluster, command.landing())
        command.report(outcome, as_json=as_json, strict=strict)
