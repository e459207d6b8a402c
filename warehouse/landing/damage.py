"""Landed files that a disk, a copy or a hand has damaged: found by what a Parquet file begins and ends with, named, set aside.

A build leaves such a file out, says so with the remedy, and takes the rest; the landing counts as not seen, so that it is built
when the file is whole again. Landing the same input again writes the file anew. What is broken inside of a file shows when it
is read: then the build fails, and `unreadable` names the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import duckdb
import polars as pl

from warehouse.landing.outcomes import LandedTable

MAGIC = b"PAR1"
#: magic, length of the footer, magic
_LEAST_BYTES = 12
REMEDY = "land its input again, or bring the file back from a copy; until then its rows are left out"


def fault_of(path: Path) -> str | None:
    """What is wrong with a landed file by its size and ends; None where nothing is."""
    try:
        size = path.stat().st_size
        if size < _LEAST_BYTES:
            return "is empty" if not size else "is cut off"
        with path.open("rb") as file:
            begin = file.read(len(MAGIC))
            file.seek(-len(MAGIC), 2)
            return None if begin == file.read() == MAGIC else "is cut off or no Parquet file"
    except FileNotFoundError:
        return "is gone"
    except OSError as error:
        return f"cannot be read ({error.strerror})"


def find_damaged(connection: duckdb.DuckDBPyConnection, raw: Path, files: Iterable[str]) -> dict[str, str]:
    """File → what is wrong with it. Footers are read of files that no build has seen (`control.file_columns`)."""
    found: dict[str, str] = {}
    known = {row[0] for row in connection.execute("select path from control.file_columns").fetchall()}
    unseen = []
    for file in files:
        path = raw / file
        fault = fault_of(path)
        if fault:
            found[file] = fault
        elif str(path) not in known:
            unseen.append(file)
    if unseen and _footer_fault(connection, [str(raw / file) for file in unseen]):
        for file in unseen:
            fault = _footer_fault(connection, [str(raw / file)])
            if fault:
                found[file] = f"has a broken footer ({fault})"
    return found


def _footer_fault(connection: duckdb.DuckDBPyConnection, paths: Sequence[str]) -> str | None:
    try:
        connection.execute("select count(*) from parquet_schema(?)", [paths]).fetchall()
    except duckdb.Error as error:
        return str(error).splitlines()[0][:200]
    return None


def without(landed: Sequence[LandedTable], damaged: Mapping[str, str]) -> list[LandedTable]:
    """The records without the damaged files."""
    if not damaged:
        return list(landed)
    return [replace(record, files=tuple(file for file in record.files if file not in damaged)) for record in landed]


def messages(raw: Path, damaged: Mapping[str, str]) -> list[str]:
    """One line per damaged file, with the remedy."""
    return [f"{raw / file} {fault}: {REMEDY}" for file, fault in sorted(damaged.items())]


def unreadable(raw: Path, files: Iterable[str]) -> dict[str, str]:
    """Files that break when they are read to the end; for a build that failed, since it reads everything."""
    found = {}
    for file in files:
        try:
            pl.scan_parquet(raw / file, hive_partitioning=False).select(pl.all().hash().sum()).collect(engine="streaming")
        except (pl.exceptions.PolarsError, OSError) as error:
            found[file] = f"is broken inside ({str(error).splitlines()[0][:200]})"
    return found
