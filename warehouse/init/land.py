"""Land what the tables of `config/` say (rate cards, workload rules, exchange rates, list prices …), where it is new.

Each build calls this first, so that a saved file is in force from the next build on. A broken line goes to quarantine and
the rest lands; a file that cannot be read at all leaves what it said last in force. Neither stops a build: the rest of the
fleet does not wait for a price.

A reference table keeps, per key, what landed last. A row that was taken out of its file is therefore landed once more with
an empty time of validity. While a line of the file cannot be read nothing is taken out: it may be that very row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import duckdb
import polars as pl

from warehouse.home import Home
from warehouse.init.files import ConfigError, ConfigFile, ConfigRow, read_config_file
from warehouse.landing.conform import MALFORMED, Conformed, Reject, conform
from warehouse.landing.landings import CollectionOutcome, Landing, LandingError
from warehouse.landing.outcomes import current_files, landed_tables
from warehouse.landing.shape import TABLES, Table

SOURCE = "config"
#: `exchange_rates.csv` is written by hand alone: without it no two currencies are added
TABLE_NAMES = ("rate_cards", "workload_rules", "exchange_rates", "list_prices", "carbon_intensities")
#: the end of a row that is in force at no time and has no beginning
NEVER = datetime(1970, 1, 1)


@dataclass(frozen=True)
class Said:
    """What one file says: typed rows, what was left out and why, what a person should know. `error`: it cannot be read."""

    table: Table
    path: Path
    rows: pl.DataFrame
    rejects: tuple[Reject, ...] = ()
    notes: tuple[str, ...] = ()
    error: str | None = None
    exists: bool = True

    def problems(self) -> list[str]:
        """One line per problem: file, line, what is wrong."""
        lines = [f"{self.path}, line {reject.line}: {reject.detail}" for reject in self.rejects]
        return [self.error, *lines] if self.error else lines


@dataclass(frozen=True)
class ConfigLanding:
    """What landing one file did; `outcome` is None where there was nothing to land."""

    said: Said
    outcome: CollectionOutcome | None = None
    messages: tuple[str, ...] = field(default=())


def path_of(home: Home, table_name: str) -> Path:
    return home.config / f"{table_name}.csv"


def read_said(home: Home, table_name: str) -> Said:
    """Read one file; nothing is landed."""
    return read_file(path_of(home, table_name), table_name)


def read_file(path: Path, table_name: str) -> Said:
    """Read a file of that table wherever it lies; nothing is landed."""
    table = TABLES[table_name]
    try:
        file = read_config_file(path, [column.name for column in table.columns if column.required])
    except ConfigError as error:
        return Said(table, path, _typed(table, path, []).rows, error=str(error))
    if file is None:
        return Said(table, path, _typed(table, path, []).rows, exists=False)
    rows, unpriced = _complete(table, file.rows)
    problems = {row.line: problem for row in rows if (problem := _problem(table, row))}
    checked = _typed(table, path, [row for row in rows if row.line not in problems])
    rejects = [Reject(path.name, line, MALFORMED, problem) for line, problem in problems.items()]
    rejects = sorted([*file.rejects, *rejects, *checked.rejects], key=lambda reject: reject.line or 0)
    last = checked.rows.unique(table.key, keep="last", maintain_order=True)
    return Said(table, path, last, tuple(rejects), tuple(_notes(table, file, unpriced, checked.rows, last)))


def _typed(table: Table, path: Path, rows: Sequence[ConfigRow]) -> Conformed:
    """The rows as the landing shape types them."""
    known = [column.name for column in table.columns]
    frame = pl.DataFrame(
        [{name: row.cells.get(name) for name in known} | {"line_number": row.line} for row in rows],
        schema=dict.fromkeys(known, pl.String) | {"line_number": pl.Int64},
    )
    return conform(table, frame, path.name)


def _notes(
    table: Table, file: ConfigFile, unpriced: Sequence[ConfigRow], rows: pl.DataFrame, last: pl.DataFrame
) -> Iterator[str]:
    """What is no mistake and still passed over."""
    known = [column.name for column in table.columns]
    unknown = [name for name in file.header if name and name not in known]
    if unknown:
        yield f"{file.path}: column {', '.join(unknown)} is not read; the columns are {', '.join(known)}"
    if unpriced:
        lines = _listed([row.line for row in unpriced])
        yield f"{file.path}: no price yet, and therefore skipped: line {lines}; fill in currency and cost_per_gpu_hour"
    repeated = rows.filter(~pl.col("line_number").is_in(last["line_number"].to_list()))["line_number"].to_list()
    if repeated:
        key = ", ".join(table.key)
        yield f"{file.path}: line {_listed(repeated)} is said again further down with the same {key}; the last one stands"


def _listed(lines: Sequence[int]) -> str:
    return ", ".join(str(line) for line in lines[:10]) + (", …" if len(lines) > 10 else "")


def _complete(table: Table, rows: tuple[ConfigRow, ...]) -> tuple[list[ConfigRow], list[ConfigRow]]:
    """The rows to land, and those that `init` wrote and nobody has given a price."""
    if table.name != "rate_cards":
        return list(rows), []
    prices = ("cost_per_gpu_hour", "purchase_price", "depreciation_hours", "hosting_cost_per_hour")
    unpriced = [row for row in rows if not any(row.cells.get(name) for name in prices)]
    return [row for row in rows if row not in unpriced], unpriced


def _problem(table: Table, row: ConfigRow) -> str | None:
    """What the landing shape cannot see and a build would pass over in silence."""
    if table.name == "rate_cards":
        if not row.cells.get("currency"):
            return "currency: a price needs one, as ISO 4217 writes it (USD, EUR)"
        if row.cells.get("cost_per_gpu_hour"):
            return None
        if not row.cells.get("purchase_price") or not row.cells.get("depreciation_hours"):
            return "give cost_per_gpu_hour, or purchase_price with depreciation_hours (three years are 26280)"
        return None
    if table.name == "list_prices":
        priced = any(value for name, value in row.cells.items() if "_cost_per_" in f"_{name}")
        return None if priced else "give a price: input, output or cached input per million tokens, or one per 1,000 requests"
    pattern = row.cells.get("name_regex")
    return _broken_pattern(pattern) if pattern else None


def _broken_pattern(pattern: str) -> str | None:
    """Why the build's regular expressions (RE2: no look-around, no back-references) refuse a pattern."""
    try:
        duckdb.execute("select regexp_matches('', ?)", [pattern])
    except duckdb.Error as error:
        return f"name_regex: {str(error).splitlines()[0]}; RE2 syntax, without look-around and back-references"
    return None


def land_config(home: Home) -> list[ConfigLanding]:
    """Land each file, if it says something new; what a person should read is in the messages."""
    return [_land(home, table_name) for table_name in TABLE_NAMES]


def config_messages(home: Home) -> list[str]:
    """Land the files and return what a person should read. A disk that cannot be written is such a message, too."""
    try:
        return [message for landing in land_config(home) for message in landing.messages]
    except LandingError as error:
        return [f"the files in {home.config} could not be landed: {error}"]


def _land(home: Home, table_name: str) -> ConfigLanding:
    said = read_said(home, table_name)
    landed_before = _landed_before(home, said.table)
    if not said.exists:
        gone = f"{said.path} is gone; what it said last stays in force; to withdraw it, put back a file with the header alone"
        return ConfigLanding(said, messages=(gone,) if landed_before.height else ())
    if said.error:
        outcome = Landing(home).record_failure(SOURCE, said.error, inputs=[str(said.path)])
        return ConfigLanding(said, outcome, (f"{said.error}; what it said last stays in force",))
    withdrawn = pl.DataFrame() if said.rejects else _withdrawn(said, landed_before)
    frame = pl.concat([said.rows, withdrawn], how="diagonal_relaxed") if withdrawn.height else said.rows
    if not frame.height and not said.rejects:
        return ConfigLanding(said, messages=said.notes)
    outcome = Landing(home).land(
        SOURCE, {table_name: frame}, inputs=[str(said.path)], rejects=said.rejects, notes=said.notes
    )  # fmt: skip
    return ConfigLanding(said, outcome, tuple(_messages(said, outcome)))


def _messages(said: Said, outcome: CollectionOutcome) -> Iterator[str]:
    if outcome.status == "landed":
        yield f"{said.path}: in force from this build on, lines: {said.rows.height}"
    yield from said.notes
    problems = said.problems()
    yield from problems[:10]
    if len(problems) > 10:
        yield f"… and {len(problems) - 10} more lines of {said.path}"
    if problems:
        yield f"{said.path}: the lines above are left out, the rest holds; correct them and build again"


def _landed_before(home: Home, table: Table) -> pl.DataFrame:
    """The newest row of each key that this file ever landed, those withdrawn included."""
    files = [home.raw / file for name, file in current_files(landed_tables(home.raw, SOURCE)) if name == table.name]
    if not files:
        return pl.DataFrame()
    frame = pl.scan_parquet(files, missing_columns="insert", extra_columns="ignore").collect()
    return frame.sort("landed_at", maintain_order=True).unique(table.key, keep="last", maintain_order=True)


def _withdrawn(said: Said, landed_before: pl.DataFrame) -> pl.DataFrame:
    """The rows that the file no longer has, in force at no time."""
    if not landed_before.height:
        return landed_before
    gone = landed_before.join(said.rows, on=list(said.table.key), how="anti", nulls_equal=True)
    ended = pl.col("valid_from").fill_null(NEVER) if said.table.name == "workload_rules" else pl.col("valid_from")
    columns = [column.name for column in said.table.columns]
    return gone.select(columns).with_columns(ended.alias("valid_to")).sort(list(said.table.key))
