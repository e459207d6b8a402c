"""Great Expectations on the build database, read in place by DuckDB.

Of the two ways that work (`architecture.md`), the SQL one: DuckDB evaluates each rule where the rows lie, so that the gate can
judge the whole of every table, whatever a build touched. Measured on a ledger of 21.9 million rows (1,000 GPUs, a year) on 2
busy cores: import 11 s of processor time, the ledger's 22 rules 19 s, the four tables compared with it 3 s, all
others together 3 s, 1.8 GB. Of the ledger's rules the unique key takes 5 s, one device-hour's sum 2 s, a not-null rule 0.1 s.
Frames of such a table would not fit into memory, and frames of the touched days alone would miss a fault in an older day.

Two things are ours. GX fetches a result's rows after it gave the connection back, when DuckDB has dropped them: the dialect here
reads them at once. And GX's rule for unique compound keys takes 60 s and 10 GB on that ledger: `expectations.rules.key` asks in
two steps and takes 5 s. Importing this module takes seconds, so it is imported inside functions.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

# before the import: a gate sends nothing to anyone
os.environ["GX_ANALYTICS_ENABLED"] = "False"

import great_expectations as gx
from duckdb_sqlalchemy import Dialect, DuckDBExecutionContext
from great_expectations.data_context.types.base import ProgressBarsConfig
from great_expectations.expectations.core.expect_column_values_to_be_in_set import ExpectColumnValuesToBeInSet
from great_expectations.expectations.core.expect_table_columns_to_match_set import ExpectTableColumnsToMatchSet
from great_expectations.expectations.core.expect_table_row_count_to_be_between import ExpectTableRowCountToBeBetween
from great_expectations.expectations.core.unexpected_rows_expectation import UnexpectedRowsExpectation
from great_expectations.expectations.expectation import Expectation
from sqlalchemy import URL, select, text
from sqlalchemy.dialects import registry
from sqlalchemy.engine.cursor import FullyBufferedCursorFetchStrategy

from warehouse.digest.words import clean

__all__ = [
    "Evaluator",
    "ExpectColumnValuesToBeInSet",
    "ExpectNoRows",
    "ExpectTableColumnsToMatchSet",
    "ExpectTableRowCountToBeBetween",
    "Result",
    "check_id",
    "evaluator",
]


#: of the rows that break a rule so many are named, by so many columns
EXAMPLES, EXAMPLE_COLUMNS = 3, 5


class BufferedExecutionContext(DuckDBExecutionContext):
    """Reads every row of a result before the cursor is handed on."""

    def post_exec(self) -> None:
        super().post_exec()  # type: ignore[no-untyped-call]
        if self.cursor is not None and self.cursor.description:
            self.cursor_fetch_strategy = FullyBufferedCursorFetchStrategy(self.cursor, initial_buffer=self.cursor.fetchall())


class BufferedDialect(Dialect):
    """DuckDB for clients that read results late, in UTC; `duckdb+buffered://…`."""

    execution_ctx_cls = BufferedExecutionContext
    supports_statement_cache = True

    def connect(self, *arguments: Any, **options: Any) -> Any:
        connection = super().connect(*arguments, **options)
        connection.execute("set TimeZone = 'UTC'")
        return connection


registry.register("duckdb.buffered", __name__, "BufferedDialect")


class ExpectNoRows(UnexpectedRowsExpectation):
    """The query finds nothing. Unlike its parent it counts the rows and does not fetch them, so that the query runs once."""

    metric_dependencies: ClassVar[tuple[str, ...]] = ("unexpected_rows_query.row_count",)

    def _validate(
        self, metrics: dict[str, Any], runtime_configuration: Any = None, execution_engine: Any = None
    ) -> dict[str, Any]:
        count = metrics["unexpected_rows_query.row_count"]
        return {"success": count == 0, "result": {"observed_value": count, "unexpected_count": count}}


@dataclass(frozen=True)
class Result:
    """What one expectation saw. `error` is set where it could not be evaluated at all."""

    expectation: Expectation
    success: bool
    observed: str
    unexpected_count: int
    error: str | None


class Evaluator:
    """Evaluates suites against the tables of one database file."""

    def __init__(self, datasource: Any) -> None:
        self._datasource = datasource

    def evaluate(self, table: str, expectations: list[Expectation]) -> list[Result]:
        """One result per expectation, in order."""
        asset = self._datasource.add_table_asset(table, table_name=table)
        batch = asset.add_batch_definition_whole_table(table).get_batch()
        outcome = batch.validate(gx.ExpectationSuite(name=table, expectations=expectations), result_format="SUMMARY")
        results: dict[str, Any] = {result.expectation_config.meta["check_id"]: result for result in outcome.results}
        return [self._result(table, expectation, results[check_id(expectation)]) for expectation in expectations]

    def _result(self, table: str, expectation: Expectation, result: Any) -> Result:
        found = _result(expectation, result)
        if found.error or not isinstance(expectation, ExpectNoRows):
            return found
        history = (expectation.meta or {}).get("history")
        if history:
            days = self._rows(history["query"].format(batch=table), 1)[0]["days"] or 0
            if days < history["needs"]:
                # nothing to compare with yet: that is said, and holds nobody up
                observed = f"{days} days of history, needs {history['needs']}"
                return replace(found, success=True, observed=observed, unexpected_count=0)
            found = replace(found, observed=f"{found.observed}, {days} days of history")
        if not found.success:
            rows = self._rows(str(expectation.unexpected_rows_query).format(batch=table), EXAMPLES)
            examples = "; ".join(_example(row) for row in rows)
            found = replace(found, observed=f"{found.observed}: {examples}")
        return found

    def _rows(self, query: str, limit: int) -> list[Mapping[str, Any]]:
        """The first rows of a suite's query. The text is the suite's own: nothing of the data is in it."""
        statement = select(text("*")).select_from(text(query).columns().subquery("found")).limit(limit)
        with self._datasource.get_execution_engine().engine.connect() as connection:
            return [dict(row) for row in connection.execute(statement).mappings()]


@contextmanager
def evaluator(database: Path) -> Iterator[Evaluator]:
    """An evaluator on a file, opened read-only, in UTC; the file is let go at the end."""
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    url = URL.create("duckdb+buffered", database=str(database), query={"access_mode": "read_only"})
    datasource = context.data_sources.add_sql("build", connection_string=url.render_as_string(), create_temp_table=False)
    try:
        yield Evaluator(datasource)
    finally:
        for engine in {datasource.get_engine(), datasource.get_execution_engine().engine}:
            engine.dispose()


def check_id(expectation: Expectation) -> str:
    """The name of a rule within its suite."""
    return str((expectation.meta or {})["check_id"])


def _result(expectation: Expectation, result: Any) -> Result:
    error = _error(result.exception_info or {})
    found: Mapping[str, Any] = result.result or {}
    count = int(found.get("unexpected_count") or 0)
    examples = list(dict.fromkeys(str(value) for value in found.get("partial_unexpected_list") or ()))[:EXAMPLES]
    if error:
        observed = error
    elif count and examples:
        observed = f"{count} rows: {', '.join(examples)}"
    elif isinstance(expectation, ExpectNoRows):
        observed = f"{count} rows"
    else:
        observed = str(found.get("observed_value", f"{count} rows"))
    return Result(expectation, bool(result.success) and error is None, observed, count, error)


def _example(row: Mapping[str, Any]) -> str:
    """The first columns of a row, which name it; `python -m expectations explain` shows the rest."""
    return " ".join(f"{name}={clean(str(value))}" for name, value in list(row.items())[:EXAMPLE_COLUMNS])


def _error(information: Mapping[str, Any]) -> str | None:
    """The first exception's message; GX gives one record, or one per metric."""
    records = [information] if "raised_exception" in information else list(information.values())
    for record in records:
        if record["raised_exception"]:
            return str(record["exception_message"]).strip().splitlines()[0]
    return None
