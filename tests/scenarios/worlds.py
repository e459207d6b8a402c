"""Read scenario folders, land them, and compare published tables with what they expect.

A scenario is a folder `tests/scenarios/<a_sentence>/` with `README.md` (the arithmetic by hand), `raw/<landing_table>.csv`
and `expected/<published_table>.csv`. Its cluster is the folder's name, unless it needs two.

An expected file names only the columns that matter. Columns that are figures (hours, money, counts, ratios) are compared
by value, all others together say which row is meant; published rows that agree in those are added up, so that a day may
be expected as one row. Rows whose figures are all 0 or null say nothing and are left out on both sides.

    python -m tests.scenarios.worlds land                  land every scenario into GPU_NET_HOME
    python -m tests.scenarios.worlds compare DATABASE [NAME…]   print what differs; exit 1 if anything does
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

FOLDER = Path(__file__).resolve().parent

#: the upper boundary of a latency bucket says which bucket is meant
FIGURES = re.compile(
    r"^(?!le_seconds$).*(_hours(_at_\d+pct)?|_microseconds|_us|cost(_reporting)?|_count|_tokens|_ratio(_low|_high)?|_kwh|_minutes"
    r"|_mean|_max|_bytes|_seconds|_celsius|_difference|_fraction|_saving|_joules)$|^difference$|^tokens_(useful|all)$|^promised$|^measured$|_per_"
)
NOT_ADDITIVE = re.compile(r"_ratio|_celsius$|_per_|_mean$|_max$|^latency_|_fraction$|longest_")
MONEY = re.compile(r"cost")
EXACT = re.compile(r"_microseconds$|_us$|_count$|^(prompt|cached_prompt|output)_tokens$")

Cell = str | float | int | Decimal | None
Key = tuple[str, ...]


@dataclass(frozen=True)
class Scenario:
    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def raw_files(self) -> list[Path]:
        return sorted((self.folder / "raw").glob("*.csv"))

    @property
    def expected_files(self) -> list[Path]:
        return sorted((self.folder / "expected").glob("*.csv"))

    @property
    def clusters(self) -> set[str]:
        """The clusters that the raw rows name: the folder's name, or two that begin alike."""
        return {row["cluster"] for path in self.raw_files for row in read_rows(path) if row.get("cluster")}

    @property
    def billing_accounts(self) -> set[str]:
        return {row["billing_account_id"] for path in self.raw_files for row in read_rows(path) if row.get("billing_account_id")}


def scenarios() -> list[Scenario]:
    """Every scenario, by name."""
    return [Scenario(path.parent) for path in sorted(FOLDER.glob("*/README.md"))]


def read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as text:
        return list(csv.DictReader(text))


def land(chosen: Iterable[Scenario]) -> None:
    """Land every raw file through the function behind `python -m collectors import`; a quarantined row is a mistake."""
    from collectors.tables.collect import collect
    from warehouse.home import Home
    from warehouse.landing.landings import Landing

    landing = Landing(Home.from_environment())
    for scenario in chosen:
        for path in scenario.raw_files:
            outcome = collect(path.stem, (path,), None, landing)
            if outcome.rows_quarantined:
                raise ValueError(f"{path}: {[(reject.line, reject.detail) for reject in outcome.rejected_rows]}")


def differences(connection: duckdb.DuckDBPyConnection, scenario: Scenario, expected_file: Path) -> list[str]:
    """One line per row that is missing, unexpected or off; empty where the published table says what is expected."""
    table = expected_file.stem
    rows = read_rows(expected_file)
    if not rows:
        return [f"{expected_file} expects nothing"]
    names = list(rows[0])
    keys = [name for name in names if not FIGURES.search(name)]
    figures = [name for name in names if FIGURES.search(name)]
    expected = {tuple(row[name] for name in keys): [row[name] for name in figures] for row in rows}
    if len(expected) < len(rows):
        return [f"{expected_file} expects two rows of one key"]
    clusters = scenario.clusters | {row["cluster"] for row in rows if "cluster" in row}
    found = _published(connection, clusters, scenario.billing_accounts, table, keys, figures)
    lines: list[str] = []
    for key in sorted(expected.keys() | found.keys()):
        want, have = expected.get(key), found.get(key)
        if have is None:
            if want is None or any(cell not in ("", "0", "0.0") for cell in want) or not figures:
                lines.append(f"missing    {_show(keys, key)} {_show(figures, want or [])}")
        elif want is None:
            if not figures or any(value is not None and value != 0 for value in have):
                lines.append(f"unexpected {_show(keys, key)} {_show(figures, have)}")
        else:
            lines += [
                f"differs    {_show(keys, key)} {name}: expected {cell or 'null'}, published {value}"
                for name, cell, value in zip(figures, want, have, strict=True)
                if not agrees(name, cell, value)
            ]
    return lines


def agrees(name: str, cell: str, value: Any) -> bool:
    """Whether a published figure is the expected one: counts and microseconds exactly, money to 1e-6, the rest to 1e-9."""
    if cell == "":
        return value is None
    if value is None:
        return False
    if EXACT.search(name):
        return Decimal(str(value)) == Decimal(cell)
    tolerance = 1e-6 if MONEY.search(name) else 1e-9
    return abs(float(value) - float(Decimal(cell))) <= tolerance * (1 + 1e-3)


def _published(
    connection: duckdb.DuckDBPyConnection,
    clusters: set[str],
    accounts: set[str],
    table: str,
    keys: Sequence[str],
    figures: Sequence[str],
) -> Mapping[Key, list[Any]]:
    columns = [row[0] for row in connection.execute(f"describe main.{table}").fetchall()]
    condition, parameters = _belongs(columns, sorted(clusters), sorted(accounts))
    # an empty list of figures still asks which rows there are
    selected = ", ".join([*keys, *figures])
    published: dict[Key, list[Any]] = {}
    for row in connection.execute(f"select {selected} from main.{table} where {condition}", parameters).fetchall():
        key = tuple(_text(value) for value in row[: len(keys)])
        values = list(row[len(keys) :])
        if key not in published:
            published[key] = values
            continue
        ratios = [name for name in figures if NOT_ADDITIVE.search(name)]
        if ratios:
            raise AssertionError(f"{table}: two rows for {_show(keys, key)}, and {', '.join(ratios)} cannot be added")
        published[key] = [_added(one, other) for one, other in zip(published[key], values, strict=True)]
    return published


def _belongs(columns: Sequence[str], clusters: Sequence[str], accounts: Sequence[str]) -> tuple[str, list[Any]]:
    if "cluster" in columns and "billing_account_id" in columns:
        return "(list_contains(?, cluster) or list_contains(?, billing_account_id))", [clusters, accounts]
    if "cluster" in columns:
        return "list_contains(?, cluster)", [clusters]
    if "billing_account_id" in columns:
        return "list_contains(?, billing_account_id)", [accounts]
    if "workload_id" in columns:
        return "list_contains(?, split_part(workload_id, '/', 1))", [clusters]
    raise AssertionError(f"no column says which scenario a row belongs to: {', '.join(columns)}")


def _added(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return one if other is None else other
    return one + other


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.isoformat() + "Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value)


def _show(names: Sequence[str], values: Sequence[Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in zip(names, values, strict=True))


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["land"]:
        land(scenarios())
        return 0
    if arguments[:1] != ["compare"] or len(arguments) < 2:
        print(__doc__)
        return 2
    wrong = 0
    with duckdb.connect(arguments[1], read_only=True) as connection:
        for scenario in scenarios():
            if arguments[2:] and scenario.name not in arguments[2:]:
                continue
            for path in scenario.expected_files:
                try:
                    lines = differences(connection, scenario, path)
                except (AssertionError, duckdb.Error) as error:
                    lines = [str(error).splitlines()[0]]
                wrong += bool(lines)
                print(f"{'FAIL' if lines else 'ok  '} {scenario.name}/{path.stem}")
                print("".join(f"       {line}\n" for line in lines), end="")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
