"""`python -m expectations` runs the gate on the last build and writes the verdict; `explain` shows the rows behind it."""

from __future__ import annotations

import json
import sys

import click

from warehouse.home import Home
from warehouse.verdict import Verdict

PUBLISH_EXIT, FAILED_EXIT, HOLD_EXIT = 0, 1, 3
#: a table of rows is printed as wide as this where there is no terminal
PLAIN_WIDTH = 150


@click.group(invoke_without_command=True)
@click.pass_context
def main(context: click.Context) -> None:
    """Judge the last build: exit 0 publish (warnings are listed), 3 hold, 1 the gate could not look at it."""
    if context.invoked_subcommand is None:
        run_gate()


def run_gate() -> None:
    """Judge the last build, print what failed, leave with the exit code."""
    import duckdb

    from expectations.gate import NothingBuiltError, judge
    from warehouse.database import WarehouseLockedError
    from warehouse.publication.tables import UnpublishableTypeError

    home = Home.from_environment()
    try:
        verdict = judge(home)
    except (NothingBuiltError, UnpublishableTypeError) as error:
        click.echo(f"hold: {error}", err=True)
        sys.exit(HOLD_EXIT)
    except (WarehouseLockedError, duckdb.Error, OSError) as error:
        click.echo(f"the gate could not look at the build: {error}", err=True)
        sys.exit(FAILED_EXIT)
    report(verdict)
    sys.exit(PUBLISH_EXIT if verdict.verdict == "publish" else HOLD_EXIT)


def report(verdict: Verdict) -> None:
    """Print a summary, then every failure with what it means, what holds publication last: a log ends with the cause."""
    tables = len({check.table for check in verdict.checks})
    click.echo(
        f"gate: {verdict.verdict} build {verdict.build_id}: {verdict.passed} of {len(verdict.checks)} checks on {tables} tables "
        f"passed, {verdict.warned} warnings, {verdict.failed} critical failures"
    )
    for severity in ("warning", "critical"):
        for check in verdict.checks:
            if not check.success and check.severity == severity:
                line = f"{severity}: {check.table}: {check.check_id}: {check.observed}\n    {check.message}"
                click.echo(line, err=severity == "critical")
    held = next((check for check in verdict.checks if not check.success and check.severity == "critical"), None)
    if held:
        click.echo(f"the rows: python -m expectations explain {held.check_id} --table {held.table}", err=True)


@main.command("explain")
@click.argument("check")
@click.option("--table", help="Only this table; without it, each in which the check failed.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Rows per table.")
@click.option("--all-columns", is_flag=True, help="Whole rows, not only keys and what the check is about.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def explain_command(check: str, table: str | None, limit: int, all_columns: bool, as_json: bool) -> None:
    """Show the rows of the build that break CHECK (`key_unique`, or `fct_gpu_ledger_hourly.key_unique`), and what it means.

    Exit 0 whether rows are found or not, 2 where no table has such a check.
    """
    import duckdb

    from expectations.explain import UnknownCheckError, explain
    from expectations.gate import NothingBuiltError
    from warehouse.database import WarehouseLockedError

    try:
        found = explain(Home.from_environment(), check, table, limit, whole_rows=all_columns)
    except UnknownCheckError as error:
        raise click.UsageError(str(error)) from error
    except (NothingBuiltError, WarehouseLockedError, duckdb.Error, OSError) as error:
        click.echo(f"explain: {error}", err=True)
        sys.exit(FAILED_EXIT)
    if as_json:
        records = [
            {
                **{name: getattr(one, name) for name in ("table", "check_id", "severity", "message", "observed", "count")},
                "rows": one.records,
            }
            for one in found
        ]
        click.echo(json.dumps(records, default=str, indent=2, ensure_ascii=False))
        return
    for one in found:
        show(one)


@main.command("docs")
def docs_command() -> None:
    """Write the last verdict as a page (the gate does so, too) and print where it is: one file, no network."""
    from expectations import data_docs
    from warehouse.verdict import read_verdict

    home = Home.from_environment()
    verdict = read_verdict(home)
    if verdict is None:
        click.echo("docs: there is no verdict yet: run `python -m expectations`", err=True)
        sys.exit(FAILED_EXIT)
    click.echo(str(data_docs.write(home, verdict)))


def show(found: object) -> None:
    """Print a check, what a failure means, and its rows."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from expectations.explain import Offenders
    from warehouse.digest.words import clean

    assert isinstance(found, Offenders)
    console = Console(width=max(PLAIN_WIDTH, Console().width))
    console.print(f"{found.table}: {found.check_id} ({found.severity})", highlight=False, style="bold")
    console.print(f"  {escape(found.message)}", highlight=False)
    if found.observed:
        console.print(f"  the gate saw: {escape(clean(found.observed, 400))}", highlight=False)
    if not found.rows:
        said = "no row of the build breaks it now" if found.count == 0 else "it is about the build, not about rows"
        console.print(f"  {said}", highlight=False)
        return
    rows = Table(*found.columns, box=SIMPLE_HEAD)
    for row in found.rows:
        rows.add_row(*(escape(clean(str(value))) if value is not None else "–" for value in row))
    console.print(rows)
    if found.count > len(found.rows):
        console.print(f"  {len(found.rows)} of {found.count:,} rows; --limit for more", highlight=False)


if __name__ == "__main__":
    main(prog_name="python -m expectations")
