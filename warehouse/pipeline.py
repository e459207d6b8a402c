"""`python -m warehouse run`: build, gate, publish, in that order; each its own command, so that each can be run alone."""

from __future__ import annotations

import subprocess
import sys

import click

from warehouse.build import build_window
from warehouse.command_line import INSTANT
from warehouse.first_screen import show
from warehouse.home import Home

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
    window = [part for name, value in (("--since", since), ("--until", until)) if value for part in (name, f"{value}Z")]
    run_step("warehouse", "build", *window, *(["--full-refresh"] if full_refresh else []))
    run_step("expectations")
    run_step("warehouse", "publish", *(["--force"] if force else []))
    show(Home.from_environment().published_database, most_clusters=MOST_CLUSTERS)


def run_step(module: str, *arguments: str) -> None:
    """Run `python -m module …` and leave with its exit code if that is not 0."""
    finished = subprocess.run([sys.executable, "-m", module, *arguments], check=False)
    if finished.returncode:
        sys.exit(finished.returncode)
