"""What all collector commands share: their options, their summary line, their exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from warehouse.command_line import INSTANT
from warehouse.home import Home
from warehouse.landing.masking import redact

if TYPE_CHECKING:
    from warehouse.landing.landings import CollectionOutcome, Landing

Command = TypeVar("Command", bound=Callable[..., Any])

#: exit codes of `interfaces.md`
LANDED, FAILED, WRONG_USAGE, QUARANTINED = 0, 1, 2, 4


class SourceFailedError(Exception):
    """The source could not be read; the message says what to do about it."""


__all__ = [
    "FAILED",
    "FILES",
    "INSTANT",
    "LANDED",
    "QUARANTINED",
    "WRONG_USAGE",
    "SourceFailedError",
    "collector_options",
    "landing",
    "report",
    "require_cluster",
    "source",
    "utc_now",
]

FILES = click.Path(exists=True, dir_okay=False, path_type=Path)


def collector_options(command: Command) -> Command:
    """`--cluster`, `--json` and `--strict`, which every collector takes."""
    for option in (
        click.option("--strict", is_flag=True, help="Exit 1, not 4, when rows were quarantined."),
        click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON."),
        click.option("--cluster", envvar="GPU_NET_CLUSTER", help="Cluster the rows belong to [GPU_NET_CLUSTER]."),
    ):
        command = option(command)
    return command


def require_cluster(cluster: str | None) -> str:
    """The cluster's name; a usage error where a source does not say it itself and nobody gave it."""
    if not cluster:
        raise click.UsageError("name the cluster: --cluster NAME, or GPU_NET_CLUSTER")
    return cluster


def landing() -> Landing:
    # an agent that stays on a GPU host reads options with this module, and must not hold polars
    from warehouse.landing.landings import Landing

    return Landing(Home.from_environment())


@contextmanager
def source(name: str, *, cluster: str | None, inputs: tuple[Path, ...] | list[Path] = ()) -> Iterator[None]:
    """Turn a `SourceFailedError` or an unreadable file into an outcome record, one line on stderr and exit code 1."""
    try:
        yield
    except (SourceFailedError, OSError) as error:
        # a message may quote bytes of the source that are no text
        message = redact(str(error).encode("utf-8", "replace").decode())
        landing().record_failure(name, message, cluster=cluster, inputs=[str(path) for path in inputs])
        click.echo(f"{name}: {message}", err=True)
        sys.exit(FAILED)


def report(outcome: CollectionOutcome, *, as_json: bool, strict: bool) -> None:
    """Print the outcome, name the first rejects with their remedy on stderr, leave with the right exit code."""
    click.echo(outcome.as_json() if as_json else outcome.summary())
    for note in outcome.notes:
        click.echo(f"note: {note}", err=True)
    for reject in outcome.rejected_rows[:10]:
        where = f"{reject.file}:{reject.line}" if reject.line is not None else reject.file
        click.echo(f"quarantined {where}: {reject.reason}: {reject.detail}", err=True)
    if outcome.rows_quarantined > 10:
        click.echo(f"… and {outcome.rows_quarantined - 10} more, all in {Home.from_environment().quarantine}", err=True)
    if outcome.rows_quarantined:
        sys.exit(FAILED if strict else QUARANTINED)


def utc_now() -> datetime:
    """Now, naive UTC."""
    return datetime.now(UTC).replace(tzinfo=None)
