"""`python -m warehouse run`: build, gate, publish, in that order; each its own command, so that each can be run alone."""

from __future__ import annotations

import subprocess
import sys

import click

from warehouse.alerts.command import show_alerts
from warehouse.build import build_window
from warehouse.command_line import INSTANT
from warehouse.first_screen import show
from warehouse.home import Home
from warehouse.landing.outcomes import outcome_files

#: exit code where nothing may be published
HELD = 3
#: clusters with columns of their own on the first screen; the others are in its total
MOST_CLUSTERS = 6


@click.command("run")
@click.option("--since", type=INSTANT, help="Rebuild from this instant or date on (UTC).")
@click.option("--until", type=INSTANT, help="Rebuild up to this instant or date, exclusive (UTC).")
@click.option("--full-refresh", is_flag=True, help="Build every day anew.")
@click.option("--force", is_flag=True, help="Publish an unchanged build again.")
def run_command(since: object, until: object, full_refresh: bool, force: bool) -> None:
    """Build, gate and publish, then show where the capacity went.

    Stops at the first step that fails and leaves with its exit code (3: held).
    """
    build_window(since, until)  # type: ignore[arg-type]
    home = Home.from_environment()
    if not outcome_files(home.raw):
        click.echo(f"nothing has landed in {home.raw}; python -m collectors check says what can be collected here", err=True)
        sys.exit(HELD)
    window = [part for name, value in (("--since", since), ("--until", until)) if value for part in (name, f"{value}Z")]
    try:
        run_step("warehouse", "build", *window, *(["--full-refresh"] if full_refresh else []))
        run_step("expectations")
        run_step("warehouse", "publish", *(["--force"] if force else []))
    except SystemExit:
        show_alerts(home)
        raise
    show(home.published_database, most_clusters=MOST_CLUSTERS)
    show_alerts(home)
    click.echo("what is missing, and what to do next: python -m warehouse status")


def run_step(module: str, *arguments: str) -> None:
    """Run `python -m module …` and leave with its exit code if that is not 0."""
    finished = subprocess.run([sys.executable, "-m", module, *arguments], check=False)
    if finished.returncode:
        sys.exit(finished.returncode)
