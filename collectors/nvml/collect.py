"""`python -m collectors nvml`: read this host's GPUs continuously (a service), or once."""

from __future__ import annotations

import math
import platform
import selectors
import sys
import time
from typing import Any

import click

from collectors import command
from collectors.command import SourceFailedError
from collectors.nvml.agent import Agent, Settings
from collectors.nvml.grid import instant
from collectors.nvml.host import read_host, to_row
from collectors.nvml.readers import Readers
from collectors.nvml.sample import Fleet, Row
from collectors.nvml.schema import SOURCE
from warehouse.home import Home

#: `--once` reads twice, this far apart
ONCE_SECONDS = 1.0
#: nobody who wants to know how things are now waits longer than this for a GPU to open
ONCE_PATIENCE_SECONDS = 10.0


def read_once(settings: Settings, seconds: float) -> tuple[list[Row], Readers, tuple[int, int], list[str]]:
    """Two readings `seconds` apart: rows of the time between them, the readers, that time, notes.

    Raises SourceFailedError where no driver answers, or no GPU.
    """
    notes: list[str] = []
    with selectors.DefaultSelector() as selector:
        readers = Readers(selector, settings.patience, ONCE_PATIENCE_SECONDS)
        fleet = Fleet(round(seconds * 1000))
        try:
            # opening takes its time, and what is read meanwhile stands for nothing
            first = _round(readers, fleet, round(time.time() * 1000), notes, 2.5 * ONCE_PATIENCE_SECONDS)
            if readers.trouble is not None:
                raise SourceFailedError(readers.trouble)
            if not fleet.devices and not fleet.nameless:
                raise SourceFailedError("; ".join(notes) or "the driver lists no GPU; run nvidia-smi -L")
            before, begun_at = read_host(), round(time.time() * 1000)
            _round(readers, fleet, begun_at, notes, 3 * settings.patience)
            fleet.begin(begun_at)
            time.sleep(seconds)
            ended_at = max(begun_at + 1, round(time.time() * 1000))
            second = _round(readers, fleet, ended_at, notes, 3 * settings.patience)
            second += fleet.close(ended_at)
        finally:
            readers.close()
    rows = [row for row in first if row[0] == "gpu_inventory"] + second
    now = read_host()
    if before and now:
        rows.append(("node_samples", to_row(before, now, begun_at, ended_at, ended_at - begun_at)))
    notes += [f"GPU {index} is lost, and its UUID is not known {why}".strip() for index, why in fleet.nameless.items()]
    return rows, readers, (begun_at, ended_at), notes


def _round(readers: Readers, fleet: Fleet, at: int, notes: list[str], seconds: float) -> list[Row]:
    rows: list[Row] = []
    readers.ask(at, describe=True, with_processes=True)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for message in readers.wait(0.05):
            if "status" in message:
                rows += fleet.answer(message)
                notes += [f"GPU {message['index']}: {message['detail']}"] if message.get("detail") else []
            elif "fleet" in message:
                fleet.open(message["fleet"], message["skipped"])
            elif "note" in message:
                notes.append(message["note"])
        if readers.is_done:
            break
    return rows


def land_once(settings: Settings, rows: list[Row], readers: Readers, span: tuple[int, int], notes: list[str]) -> Any:
    """Land the rows of `read_once`; returns the outcome."""
    from collectors.nvml.land import complete
    from collectors.parsed import Parsed
    from warehouse.landing.landings import Window

    parsed = Parsed()
    for table, row in rows:
        parsed.add(table, complete(table, row, settings.cluster, settings.node))
    return command.landing().land(
        SOURCE,
        parsed.frames(),
        cluster=settings.cluster,
        window=Window(instant(span[0]), instant(span[1])),
        source_version=readers.driver,
        notes=list(dict.fromkeys(notes)),
    )


@click.command(SOURCE)
@click.option(
    "--interval",
    "interval_seconds",
    type=click.FloatRange(0.1, 3600),
    default=10,
    show_default=True,
    help="Seconds between two readings, taken at multiples of it on the clock (…:00, :10, :20).",
)
@click.option("--once", is_flag=True, help="Read twice, a second apart, land what happened between, and end.")
@click.option("--node", envvar="GPU_NET_NODE", help="This host's name in the scheduler [GPU_NET_NODE; the host's own name].")
@click.option(
    "--land-every",
    "land_seconds",
    type=click.FloatRange(1, 86_400),
    default=3600,
    show_default=True,
    help="Seconds of readings in one landing, cut on the clock. A landing takes a second of a core, a file, and a record.",
)
@click.option(
    "--processes-every",
    "process_seconds",
    type=click.FloatRange(1, 3600),
    default=60,
    show_default=True,
    help="Seconds between two looks at who computes on the GPUs.",
)
@command.collector_options
def nvml(
    interval_seconds: float,
    once: bool,
    node: str | None,
    land_seconds: float,
    process_seconds: float,
    cluster: str | None,
    as_json: bool,
    strict: bool,
) -> None:
    """Read this host's GPUs through NVML: samples, inventory, processes, and the host's own load.

    Runs until SIGTERM, spools what it reads, and lands it every hour and at its end. A GPU that is lost, hangs or answers
    nothing is told as such, and the others are read on.
    """
    cluster = command.require_cluster(cluster)
    settings = Settings(
        cluster,
        node or platform.node().partition(".")[0],
        round(interval_seconds * 1000),
        round(process_seconds * 1000),
        math.ceil(land_seconds * 1000),
        as_json,
    )
    if not once:
        sys.exit(Agent(settings, Home.from_environment()).run())
    with command.source(SOURCE, cluster=cluster):
        rows, readers, span, notes = read_once(settings, min(ONCE_SECONDS, interval_seconds))
        outcome = land_once(settings, rows, readers, span, notes)
        command.report(outcome, as_json=as_json, strict=strict)
