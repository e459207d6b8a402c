"""Decide whether the last build is fit to publish, and write down why.

The gate reads results, not exit codes: what dbt recorded about its nodes, and what every suite saw. Silence is a failure: a suite
that evaluated nothing, a table that is not there and a rule that could not be evaluated all hold publication.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import duckdb

from expectations import suites
from expectations.rules import CRITICAL, Table
from warehouse.database import connect, locked
from warehouse.home import Home
from warehouse.publication.tables import published_tables
from warehouse.sql import compose, identifier
from warehouse.verdict import HOLD, PUBLISH, Build, Check, Verdict, database_state, last_build, verdict_path, write_verdict

if TYPE_CHECKING:
    from expectations.engine import Evaluator, Result

logger = logging.getLogger(__name__)

#: any of these with a row is something to show; with none of them, nothing has landed that a reader could use
FACTS = ("fct_gpu_ledger_hourly", "fct_billing_lines", "fct_inference_hourly")
DBT_SUCCESSES = ("success", "pass", "warn", "no-op")


class NothingBuiltError(Exception):
    """There is no build to judge."""


def judge(home: Home) -> Verdict:
    """Check the last build and write its verdict; raises NothingBuiltError, WarehouseLockedError, duckdb.Error."""
    if not home.build_database.exists():
        raise NothingBuiltError("nothing is built yet: run `python -m warehouse build`")
    home.create()
    with locked(home):
        # an old verdict must not outlive a gate that is killed
        verdict_path(home).unlink(missing_ok=True)
        with connect(home.build_database, read_only=True) as connection:
            build = last_build(connection)
            tables = tables_of(connection)
            has_facts = any(
                connection.execute(compose("select 1 from {table} limit 1", table=identifier(table.name))).fetchall()
                for table in tables
                if table.name in FACTS
            )
        if build is None:
            raise NothingBuiltError("no build has ended yet: run `python -m warehouse build`")
        checks = [_build_check(build), *_dbt_checks(home, build), _facts_check(has_facts)]
        if all(check.success for check in checks):
            # tables of a build that failed are half old: what suites say about them would only hide the cause
            checks.extend(missing_tables(tables))
            checks.extend(check_tables(home, tables))
        held = any(not check.success and check.severity == CRITICAL for check in checks)
        verdict = Verdict(
            build_id=build.build_id,
            verdict=HOLD if held else PUBLISH,
            checked_at=datetime.now(UTC).replace(tzinfo=None),
            database_state=database_state(home),
            checks=tuple(checks),
        )
        write_verdict(home, verdict)
        _write_page(home, verdict)
        return verdict


def _write_page(home: Home, verdict: Verdict) -> None:
    """Write the verdict as a page; one that cannot be written takes nothing from the verdict."""
    from expectations import data_docs

    try:
        data_docs.write(home, verdict)
    except OSError as error:
        logger.warning("the page of the verdict could not be written: %s", error)


def tables_of(connection: duckdb.DuckDBPyConnection) -> list[Table]:
    """The tables of a build that are to be published."""
    catalog = connection.execute("select current_database()").fetchall()[0][0]
    return [Table(table.name, table.columns) for table in published_tables(connection, catalog)]


def _build_check(build: Build) -> Check:
    observed = build.status if build.is_finished else f"a later build than {build.build_id} was begun and did not end"
    message = "The last build failed or was killed, so that its tables are half old: run `python -m warehouse build` again."
    return _critical("last_build_succeeded", "build", build.is_finished and build.status == "succeeded", observed, message)


def _dbt_checks(home: Home, build: Build) -> list[Check]:
    """What dbt's own record of its last run says about the nodes, of which some are tests."""
    path = home.build / "dbt" / "target" / "run_results.json"
    message = "dbt left no record of the last build: run `python -m warehouse build` again."
    if not path.exists():
        return [_critical("dbt_results_are_there", "build", False, "no run_results.json", message)]
    try:
        record = json.loads(path.read_text())
        generated_at = datetime.fromisoformat(record["metadata"]["generated_at"])
        results: list[dict[str, Any]] = record["results"]
    except (ValueError, KeyError) as error:
        return [_critical("dbt_results_are_there", "build", False, f"run_results.json cannot be read: {error}", message)]
    is_of_this_build = generated_at.astimezone(UTC).replace(tzinfo=None) >= build.started_at
    # a node that was skipped was skipped for one that failed
    broken = [node for node in results if node["status"] not in DBT_SUCCESSES]
    names = ", ".join(f"{node['unique_id']} ({node['status']})" for node in broken[:5])
    return [
        _critical("dbt_results_are_there", "build", bool(results), f"{len(results)} nodes", message),
        _critical("dbt_results_are_of_this_build", "build", is_of_this_build, f"generated at {generated_at}", message),
        _critical(
            *("dbt_nodes_succeeded", "build", not broken, names or f"{len(results)} nodes"),
            "A model or a dbt test failed, and what follows it is old: build/dbt/last_run.log names it; build again.",
            unexpected=len(broken),
        ),
    ]


def _facts_check(has_facts: bool) -> Check:
    message = (
        "There is nothing to publish: land something (`python -m collectors check` says what this machine sees) and build again."
    )
    return _critical("something_was_built", "build", has_facts, "rows" if has_facts else f"no row in {', '.join(FACTS)}", message)


def missing_tables(tables: Sequence[Table]) -> list[Check]:
    """A failure for each table that every build must have and this one has not."""
    present = {table.name for table in tables}
    message = "A promised table was not built: run `python -m warehouse build --full-refresh`."
    return [
        _critical("table_is_there", name, False, "missing", message) for name in suites.required_tables() if name not in present
    ]


def check_tables(home: Home, tables: Sequence[Table]) -> Iterator[Check]:
    """Every rule of the tables' suites, evaluated on the build database."""
    from expectations.engine import evaluator

    with evaluator(home.build_database) as engine:
        for table in tables:
            yield from _suite_checks(engine, table)


def _suite_checks(engine: Evaluator, table: Table) -> list[Check]:
    """What a table's suite saw; a failure where there is no suite, or it saw nothing."""
    expectations = suites.suite_of(table)
    if expectations is None:
        message = f"Nobody has said what readers may rely on in this table: add expectations/suites/{table.name}.py."
        return [_critical("has_a_suite", table.name, False, "no suite", message)]
    results = engine.evaluate(table.name, expectations) if expectations else []
    checks = [_check(table.name, result) for result in results]
    if not any(result.error is None for result in results):
        message = "A suite evaluated nothing, so that the table is unproven: repair expectations/suites, silence is not success."
        checks.append(_critical("something_was_evaluated", table.name, False, "0 expectations evaluated", message))
    return checks


def _check(table: str, result: Result) -> Check:
    from expectations.engine import check_id

    expectation = result.expectation
    # a warning that cannot be evaluated says nothing about the data: the rule itself is broken
    severity = CRITICAL if result.error else str(getattr(expectation.severity, "value", expectation.severity))
    message = f"The rule could not be evaluated: {expectation.notes}" if result.error else str(expectation.notes)
    return Check(check_id(expectation), table, severity, result.success, result.observed, result.unexpected_count, message)


def _critical(check_id: str, table: str, success: bool, observed: str, message: str, unexpected: int | None = None) -> Check:
    count = unexpected if unexpected is not None else int(not success)
    return Check(check_id, table, CRITICAL, success, observed, count, message)
