"""Land a plan in the landing shape: a landing per cluster, and one for what belongs to none."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from itertools import islice

import polars as pl

from collectors.parsed import Row, to_frame
from collectors.simulate import tables
from collectors.simulate.hardware import CIRRUS, CLUSTERS, DRIFT
from collectors.simulate.plan import Plan
from collectors.simulate.samples import sample_frames
from collectors.simulate.usage import usage_frames
from collectors.simulate.world import VERSION, Parameters
from warehouse.landing.landings import CollectionOutcome, Frames, Landing, Window

SOURCE = "simulate"
ROWS = 100_000


def land_plan(
    plan: Plan,
    parameters: Parameters,
    first: int,
    last: int,
    landing: Landing,
    *,
    interval: int = 10,
    usage_every: int = 1,
) -> list[CollectionOutcome]:
    """Land the minutes `[first, last)` of the plan: a sample of each slot every `interval` seconds, a row of usage of each
    replica every `usage_every` minutes."""
    outcomes = [
        landing.land(
            SOURCE,
            _of_cluster(plan, cluster, first, last, interval, usage_every),
            cluster=cluster,
            inputs=[parameters.name],
            window=Window(plan.window.at(first), plan.window.at(last)),
            source_version=str(VERSION),
            content=_content(parameters, cluster, first, last, interval, usage_every),
        )
        for cluster in CLUSTERS
    ]
    shared: dict[str, Frames] = {"billing_lines": _framed(tables.bill_rows(plan, first, last))}
    if first == 0:
        # what people keep by hand is there from the beginning
        shared |= {"rate_cards": _framed(tables.rate_card_rows(plan)), "workload_rules": _framed(tables.rule_rows(plan))}
    content = _content(parameters, "shared", first, last)
    outcomes.append(landing.land(SOURCE, shared, inputs=[parameters.name], source_version=str(VERSION), content=content))
    return outcomes


def _of_cluster(plan: Plan, cluster: str, first: int, last: int, interval: int, usage_every: int) -> Mapping[str, Frames]:
    nodes = plan.fleet.in_cluster(cluster)
    found: dict[str, Frames] = {
        "gpu_samples": sample_frames(plan, nodes, first, last, interval),
        "gpu_inventory": tables.inventory_frames(plan, nodes, first, last),
        "nodes": _framed(tables.node_rows(plan, nodes, first, last)),
        "node_states": _framed(tables.node_state_rows(plan, nodes, first, last)),
        "runs": _framed(tables.run_rows(plan, cluster, first, last)),
        "run_gpus": _framed(tables.run_gpu_rows(plan, cluster, first, last)),
    }
    if cluster == CIRRUS:
        found["inference_usage"] = usage_frames(plan, first, last, usage_every)
    if cluster == DRIFT:
        found["training_events"] = _framed(tables.checkpoint_rows(plan, first, last))
    return found


def _framed(rows: Iterator[Row]) -> Iterator[pl.DataFrame]:
    while batch := list(islice(rows, ROWS)):
        yield to_frame(batch)


def _content(*parts: object) -> str:
    """A hash of all that the rows follow from."""
    return hashlib.sha256(repr((VERSION, *parts)).encode()).hexdigest()
