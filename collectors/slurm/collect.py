"""`python -m collectors slurm`: what the scheduler says of jobs and nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import click

from collectors import command
from collectors.files import read_file
from collectors.parsed import Parsed
from collectors.slurm import controller, events, nodes
from collectors.slurm.client import SlurmClient
from collectors.slurm.holds import UNFINISHED
from collectors.slurm.join import joined
from collectors.slurm.parse import SlurmOutput, add_controller_jobs, add_nodes, parse_output
from collectors.slurm.records import Reading, SourceFailedError
from collectors.slurm.runs import WITHOUT_RULES
from collectors.slurm.slices import MigRules, parse_rules
from collectors.times import TIME_ZONE
from warehouse.landing.conform import MALFORMED, Reject
from warehouse.landing.landings import CollectionOutcome, Landing, Window

#: without --since: a daily collection that comes late still meets the one before
DEFAULT_LOOKBACK = timedelta(days=1)

#: what a landing lacks whose source could not be read
MISSED = {
    "run_gpus": "not known which devices jobs hold: {}",
    "nodes": "no nodes and no node states: {}",
    "node_states": "no node states of the past: {}",
}


def collect_files(
    files: Sequence[Path], reading: Reading, cluster: str | None, at: datetime | None, landing: Landing
) -> CollectionOutcome:
    """Land what saved outputs tell together; they tell it up to the latest instant in them (or `at`).

    One file that cannot be read is a reject of the landing; if none can, SourceFailedError.
    """
    outputs: list[SlurmOutput] = []
    failures: list[SourceFailedError] = []
    for path in files:
        try:
            outputs.append(parse_output(read_file(path), path.name, reading, at))
        except SourceFailedError as error:
            failures.append(error)
            outputs.append(SlurmOutput(rejects=[Reject(path.name, None, MALFORMED, str(error))]))
    if len(failures) == len(files):
        raise failures[0]
    parsed, own = joined(outputs, cluster)
    starts = [row["started_at"] or row["submitted_at"] or row["observed_at"] for row in parsed.tables.get("runs", [])]
    through = [output.observed_at for output in outputs if output.observed_at]
    return landing.land(
        "slurm",
        parsed.frames(),
        cluster=own,
        inputs=[str(path) for path in files],
        rejects=parsed.rejects,
        window=Window(min(starts), max(through)) if starts else None,
        source_version=next((output.source_version for output in outputs if output.source_version), None),
        notes=parsed.notes,
    )


def collect_live(
    client: SlurmClient,
    since: datetime,
    until: datetime,
    cluster: str | None,
    now: datetime,
    landing: Landing,
    rules: MigRules = WITHOUT_RULES,
) -> CollectionOutcome:
    """Land the attempts active in `[since, until)` as sacct tells them now, the devices that running jobs hold, the nodes as
    they are now, and the intervals in which they were out of service.

    What of the last three cannot be read is a gap with its reason; the jobs land all the same.
    """
    reading = Reading(mig=rules)
    outputs = [parse_output(client.sacct(since, until), "sacct", reading, at=now)]
    gaps = {}
    sources: dict[str, Callable[[], SlurmOutput]] = {
        "run_gpus": lambda: devices(client.jobs(), reading, now),
        "nodes": lambda: nodes_now(client.nodes(), now),
        "node_states": lambda: past_states(client.events(since, until)),
    }
    for name, read in sources.items():
        try:
            outputs.append(read())
        except SourceFailedError as error:
            gaps[name] = str(error)
            outputs[0].note(MISSED[name].format(error))
    parsed, own = joined(outputs, cluster, command.require_cluster(cluster or client.cluster_name()))
    return landing.land(
        "slurm",
        parsed.frames(),
        cluster=own,
        inputs=["sacct", "scontrol show job", "scontrol show node", "sacctmgr show event"],
        rejects=parsed.rejects,
        window=Window(since, until),
        gaps=gaps,
        source_version=client.version(),
        notes=parsed.notes,
    )


def devices(text: str, reading: Reading, now: datetime) -> SlurmOutput:
    """Of `scontrol show job` only which devices jobs hold: the jobs themselves are sacct's."""
    output = SlurmOutput()
    add_controller_jobs(output, controller.read_text(text, "scontrol show job"), "scontrol show job", reading, now)
    output.rows, output.notes = [], [note for note in output.notes if UNFINISHED in note]
    return output


def nodes_now(text: str, now: datetime) -> SlurmOutput:
    output = SlurmOutput()
    found, output.rejects = nodes.read_scontrol(text, "scontrol show node", None)
    add_nodes(output, found, now, "scontrol show node")
    return output


def past_states(text: str) -> SlurmOutput:
    """Of the events those that have ended: the state that a node is in, it tells itself."""
    parsed = events.read(text, "sacctmgr show event", None, only_ended=True)
    return SlurmOutput(tables=Parsed(parsed.tables), rejects=parsed.rejects, notes=parsed.notes)


@click.command("slurm")
@click.option(
    "--sacct-file",
    "files",
    type=command.FILES,
    multiple=True,
    help="A saved output, as FILE is (an older name for it).",
)
@click.argument("more_files", nargs=-1, type=command.FILES, metavar="[FILE]...")
@click.option("--since", type=command.INSTANT, help="Live: jobs active from here [a day before --until].")
@click.option("--until", type=command.INSTANT, help="Live: … to here [now].")
@click.option("--time-zone", type=TIME_ZONE, help="Zone of times without offset in a saved output, such as Europe/Oslo [UTC].")
@click.option("--delimiter", help=r"Delimiter of a saved output, such as \x1f or ; [found from the header, else |].")
@click.option("--fields", help="Fields of a saved output without header, in order: JobIDRaw,State,Start,… or NODELIST,STATE,…")
@click.option("--at", type=command.INSTANT, help="When the output was taken [saved: as it tells itself; live: now].")
@click.option(
    "--mig-partition",
    "rules",
    multiple=True,
    envvar="GPU_NET_SLURM_MIG_PARTITIONS",
    metavar="NAME=PROFILE",
    help="GPUs of this partition (or GRES type) are MIG instances: mig=1g.5gb. Repeatable [GPU_NET_SLURM_MIG_PARTITIONS].",
)
@command.collector_options
def slurm(
    files: tuple[Path, ...],
    more_files: tuple[Path, ...],
    since: datetime | None,
    until: datetime | None,
    time_zone: ZoneInfo | None,
    delimiter: str | None,
    fields: str | None,
    at: datetime | None,
    rules: tuple[str, ...],
    cluster: str | None,
    as_json: bool,
    strict: bool,
) -> None:
    """Land jobs, the GPUs they hold, nodes and node states from Slurm.

    Without FILE its commands are run here. FILE is what sacct, squeue, scontrol, sinfo, sacctmgr or slurmrestd printed, or
    sonar kept of it, as text or JSON; the form is told by the content. Give those of one moment together.
    """
    files += more_files
    try:
        mig = parse_rules([rule for text in rules for rule in text.replace(",", " ").split()])
    except ValueError as error:
        raise click.UsageError(f"--mig-partition: {error}") from None
    zone = time_zone.key if time_zone else None
    reading = Reading(zone, _delimiter(delimiter), tuple((fields or "").replace(",", " ").split()), mig)
    with command.source("slurm", cluster=cluster, inputs=files):
        if files:
            if since or until:
                raise click.UsageError("--since and --until are for the live command; a saved output is read whole")
            outcome = collect_files(files, reading, cluster, at, command.landing())
        else:
            now = (at or command.utc_now()).replace(microsecond=0)
            until = min(until or now, now)
            since = since or until - DEFAULT_LOOKBACK
            if since >= until:
                raise click.UsageError("--since must lie before --until, and before now")
            outcome = collect_live(SlurmClient(), since, until, cluster, now, command.landing(), mig)
        command.report(outcome, as_json=as_json, strict=strict)


def _delimiter(text: str | None) -> str | None:
    r"""The delimiter, with `\t` and `\x1f` understood as shells without $'…' pass them."""
    if text == "":
        raise click.UsageError("--delimiter is empty")
    if text is None or not re.fullmatch(r"\\(t|x[0-9a-fA-F]{2})", text):
        return text
    return "\t" if text == r"\t" else chr(int(text[2:], 16))
