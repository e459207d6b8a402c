"""Frames of pandas over a connection of duckdb."""

import duckdb
import pandas
from reading import QUERIES, read_until_stopped


def ask(database: str) -> list[int]:
    with duckdb.connect(database, read_only=True) as connection:
        return [number for query in QUERIES for number in connection.sql(query).df().iloc[0]]


read_until_stopped(pandas.__version__, ask)
