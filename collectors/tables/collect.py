"""`python -m collectors import TABLE FILE…`: land rows that already have the landing shape."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import polars as pl

from collectors import command
from collectors.tables.parse import read_pieces
from warehouse.conform import Reject
from warehouse.landing import CollectionOutcome, Landing
from warehouse.landing_shape import TABLES


def collect(table_name: str, files: tuple[Path, ...], cluster: str | None, landing: Landing) -> CollectionOutcome:
    """Land the rows of `files` in `table_name`; `cluster` fills the column where a row leaves it out."""
    table = TABLES[table_name]
    rejects: list[Reject] = []

    def frames() -> Iterator[pl.DataFrame]:
        for path in files:
            for frame, bad in read_pieces(path, table):
                rejects.extend(bad)
                if frame.height:
                    yield _filled(frame, table_name, cluster)

    return landing.land("import", {table_name: frames()}, cluster=cluster, inputs=[str(path) for path in files], rejects=rejects)


def _filled(frame: pl.DataFrame, table_name: str, cluster: str | None) -> pl.DataFrame:
    if cluster and any(column.name == "cluster" and column.required for column in TABLES[table_name].columns):
        given = pl.col("cluster") if "cluster" in frame.columns else pl.lit(None, dtype=pl.String)
        frame = frame.with_columns(cluster=given.fill_null(cluster))
    if table_name == "gpu_samples":
        given = pl.col("source") if "source" in frame.columns else pl.lit(None, dtype=pl.String)
        frame = frame.with_columns(source=given.fill_null("import"))
    return frame


@click.command("import")
@click.argument("table", type=click.Choice(sorted(TABLES)))
@click.argument("files", nargs=-1, required=True, type=command.FILES)
@command.collector_options
def import_table(table: str, files: tuple[Path, ...], cluster: str | None, as_json: bool, strict: bool) -> None:
    """Land CSV, JSON lines or Parquet files that already have the landing shape."""
    with command.source("import", cluster=cluster, inputs=files):
        outcome = collect(table, files, cluster, command.landing())
        command.report(outcome, as_json=as_json, strict=strict)
