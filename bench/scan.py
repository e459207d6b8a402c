"""The yardstick: DuckDB's own reading of the landed samples."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import duckdb


def scan_seconds(home: Path, repeats: int = 5) -> float:
    """Median time of reading every column of the landed samples with two threads."""
    connection = duckdb.connect()
    connection.execute("set threads = 2")
    files = f"{home}/raw/*/gpu_samples/*/*.parquet"
    names = [row[0] for row in connection.execute(f"describe select * from read_parquet('{files}')").fetchall()]
    query = f"select {', '.join(f'max({name})' for name in names)} from read_parquet('{files}')"
    taken = []
    for _ in range(repeats):
        begun = time.perf_counter()
        connection.execute(query).fetchall()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)
