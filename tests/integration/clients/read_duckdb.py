"""Python's duckdb, of whatever version is installed: three statements on one connection."""

import duckdb
from reading import QUERIES, read_until_stopped


def ask(database: str) -> list[int]:
    connection = duckdb.connect(database, read_only=True)
    try:
        return [number for query in QUERIES for number in connection.execute(query).fetchone()]
    finally:
        connection.close()


read_until_stopped(duckdb.__version__, ask)
