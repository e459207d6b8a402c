"""`python -m collectors sonar FILE…`: land snapshots of processes and cards that sonar has taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import click

from collectors import command
from collectors.command import SourceFailedError
from collectors.files import read_file
from collectors.sonar.parse import Contents, parse_sonar
from collectors.sonar.rows import SOURCE, to_rows
from collectors.sonar.snapshots import by_node
from warehouse.landing.conform import MALFORMED, Reject
from warehouse.landing.landings import CollectionOutcome, Landing

NO_SNAPSHOTS = "a configuration tells no time: give it with the snapshots of its nodes"


def collect(
    files: Sequence[Path], config: Path | None, cluster: str | None, interval: timedelta, is_batch: bool, landing: Landing
) -> CollectionOutcome:
    """Land what the files tell together: a snapshot, a day or the description of a node may be spread over several.

    One file that cannot be read is a reject of the landing; if none can, SourceFailedError.
    """
    contents = Contents()
    failures: list[SourceFailedError] = []
    for path in (*files, *([config] if config else [])):
        try:
            found = parse_sonar(read_file(path), path.name, is_batch=is_batch)
        except SourceFailedError as error:
            failures.append(error)
            contents.rejects.append(Reject(path.name, None, MALFORMED, str(error)))
            continue
        contents.snapshots += found.snapshots
        contents.machines += found.machines
        contents.rejects += found.rejects
    if failures and not contents.snapshots and not contents.machines:
        raise failures[0]
    named = {snapshot.cluster for snapshot in contents.snapshots} | {machine.cluster for machine in contents.machines}
    told = sorted(name for name in named if name)
    own = cluster or (told[0] if len(told) == 1 else None)
    if cluster:  # what the option names stands for what the files name
        for snapshot in contents.snapshots:
            snapshot.cluster = cluster
        contents.machines = [replace(machine, cluster=cluster) for machine in contents.machines]
    parsed = to_rows(by_node(contents.snapshots), contents.machines, command.require_cluster(own), interval)
    if not parsed.tables and contents.machines:
        parsed.notes.append(NO_SNAPSHOTS)
    return landing.land(
        SOURCE,
        parsed.frames(),
        cluster=own,
        inputs=[str(path) for path in (*files, *([config] if config else []))],
        rejects=contents.rejects + parsed.rejects,
        notes=parsed.notes,
    )


@click.command("sonar")
@click.argument("files", nargs=-1, required=True, type=command.FILES, metavar="FILE...")
@click.option("--config", type=command.FILES, help="The nodes' cards, as Jobanalyzer's configuration of the cluster has them.")
@click.option("--interval", default=300, show_default=True, type=click.IntRange(1, 86400), help="Seconds between two snapshots.")
@click.option("--batch", "is_batch", is_flag=True, help="Job ids of versions before 0.14 are a batch system's (Slurm).")
@command.collector_options
def sonar(
    files: tuple[Path, ...],
    config: Path | None,
    interval: int,
    is_batch: bool,
    cluster: str | None,
    as_json: bool,
    strict: bool,
) -> None:
    """Land samples, processes, jobs without a scheduler and inventory from sonar's `ps` and `sysinfo`, CSV or JSON.

    Give the files of a day together, with the sysinfo of the same nodes or --config: a card is known by its UUID only there.
    """
    with command.source(SOURCE, cluster=cluster, inputs=files):
        outcome = collect(files, config, cluster, timedelta(seconds=interval), is_batch, command.landing())
        command.report(outcome, as_json=as_json, strict=strict)
