"""Write a part of a plan below `incoming`, for `python -m collectors incoming` to land through the sources' collectors.

slurm/alder/        sacct -P, scontrol show node, sacctmgr -P show event
dcgm/<cluster>/     what all exporters of a cluster say, a scrape a minute
kubernetes/…/       kubectl get pods,nodes -A -o json
inference/cirrus/   what each vLLM server says, a scrape a minute
requests/cirrus/    the gateway's spend log
billing/            the bills that were delivered in that time, as FOCUS
gpu_inventory/…/, rate_cards/, workload_rules/   what people keep by hand, in the landing shape
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

import click

from collectors.simulate import tables
from collectors.simulate.hardware import ALDER, CIRRUS, CLUSTERS, DRIFT
from collectors.simulate.native import exporters, gateway, kubectl, servers, slurm
from collectors.simulate.plan import Plan

#: a scrape of so many slots is 400 MB of text
MOST_READINGS = 200_000


def write_native(plan: Plan, first: int, last: int, folder: Path) -> int:
    """Write the minutes `[first, last)`; how many files. A usage error where that would be too much text."""
    slots = sum(len(node.slots) for node in plan.fleet.nodes)
    if slots * (last - first) > MOST_READINGS:
        hours = max(1, MOST_READINGS // slots // 60)
        raise click.UsageError(
            f"{slots} slots over {(last - first) // 60} h are too much text for --as native; "
            f"write the last {hours} h: --from {plan.window.at(max(first, last - hours * 60)):%Y-%m-%dT%H:%MZ}"
        )
    count = 0
    for name, text in _texts(plan, first, last):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # incoming takes no file that is not whole
        unfinished = path.with_name(f".{path.name}")
        unfinished.write_text(text, newline="")
        unfinished.replace(path)
        count += 1
    return count


def _texts(plan: Plan, first: int, last: int) -> Iterator[tuple[str, str]]:
    """File names below the folder, and what stands in them."""
    ended = stamp(plan.window.at(last))
    yield f"slurm/{ALDER}/sacct-{ended}.txt", slurm.sacct(plan, first, last)
    yield f"slurm/{ALDER}/nodes-{ended}.txt", slurm.nodes(plan, last)
    events = slurm.events(plan, first, last)
    if events:
        yield f"slurm/{ALDER}/events-{ended}.txt", events
    for cluster in CLUSTERS:
        for minute, text in exporters.scrapes(plan, cluster, first, last):
            yield f"dcgm/{cluster}/{stamp(plan.window.at(minute))}.prom", text
        frames = tables.inventory_frames(plan, plan.fleet.in_cluster(cluster), first, last)
        rows = chain.from_iterable(frame.iter_rows(named=True) for frame in frames)
        yield f"gpu_inventory/{cluster}/cards-{ended}.csv", as_csv(rows)
    for cluster in (CIRRUS, DRIFT):
        yield f"kubernetes/{cluster}/objects-{ended}.json", kubectl.objects(plan, cluster, first, last)
    for server, minute, text in servers.scrapes(plan, first, last):
        yield f"inference/{CIRRUS}/{server}-{stamp(plan.window.at(minute))}.prom", text
    log = gateway.spend_log(plan, first, last)
    if log:
        yield f"requests/{CIRRUS}/litellm-{ended}.jsonl", log
    lines = list(tables.bill_rows(plan, first, last))
    if lines:
        yield f"billing/focus-{ended}.csv", gateway.focus(lines)
    if first == 0:
        yield "rate_cards/rate_cards.csv", as_csv(tables.rate_card_rows(plan))
        yield "workload_rules/workload_rules.csv", as_csv(tables.rule_rows(plan))


def stamp(instant: datetime) -> str:
    """An instant as file names carry it."""
    return f"{instant:%Y-%m-%dT%H-%M-%SZ}"


def as_csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows of one landing table; instants carry their Z."""
    listed = list(rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(listed[0]), lineterminator="\n")
    writer.writeheader()
    for row in listed:
        writer.writerow(
            {name: f"{value:%Y-%m-%dT%H:%M:%SZ}" if isinstance(value, datetime) else value for name, value in row.items()}
        )
    return text.getvalue()
