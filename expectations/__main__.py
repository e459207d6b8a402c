"""`python -m expectations` runs the gate on the last build and writes the verdict."""

from __future__ import annotations

import sys

import click

from warehouse.home import Home
from warehouse.verdict import Verdict

PUBLISH_EXIT, FAILED_EXIT, HOLD_EXIT = 0, 1, 3


@click.command()
def main() -> None:
    """Judge the last build: exit 0 publish (warnings are listed), 3 hold, 1 the gate could not look at it."""
    import duckdb

    from expectations.gate import NothingBuiltError, judge
    from warehouse.database import WarehouseLockedError
    from warehouse.published_tables import UnpublishableTypeError

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
    """Print every failure with what it means, critical ones first, then one line of summary."""
    for severity in ("critical", "warning"):
        for check in verdict.checks:
            if not check.success and check.severity == severity:
                line = f"{severity}: {check.table}: {check.check_id}: {check.observed}\n    {check.message}"
                click.echo(line, err=severity == "critical")
    tables = len({check.table for check in verdict.checks})
    click.echo(
        f"gate: {verdict.verdict} build {verdict.build_id}: {verdict.passed} of {len(verdict.checks)} checks on {tables} tables "
        f"passed, {verdict.warned} warnings, {verdict.failed} critical failures"
    )


if __name__ == "__main__":
    main(prog_name="python -m expectations")
