"""Frames of Polars over a connection of duckdb."""

import duckdb
import polars
from reading import QUERIES, read_until_stopped


def ask(database: str) -> list[int]:
    with duckdb.connect(database, read_only=True) as connection:
        return [number for query in QUERIES for number in polars.read_database(query, connection).row(0)]


read_until_stopped(polars.__version__, ask)
