from __future__ import annotations

from collections import Counter
from datetime import datetime

import numpy as np
import pytest

from collectors.simulate.hardware import ALDER, BATCH, CIRRUS, CLUSTERS, DRIFT, SPOT, make_fleet
from collectors.simulate.plan import ABSENT, Plan
from collectors.simulate.states import split_node
from collectors.simulate.world import Parameters, make_plan
from tests.unit.collectors.simulate.conftest import UNTIL_AT, plan_of

EVERY_STATE = {
    ("out_of_service", "down"),
    ("out_of_service", "drained"),
    ("out_of_service", "lost"),
    ("unallocated", "free"),
    ("unallocated", "unrequested_share"),
    ("unallocated", "stranded"),
    ("unallocated", "reserved_empty"),
    ("unallocated", "draining"),
    ("borrowed", ""),
    ("suspended", "position_unknown"),
    ("unobserved", "gap"),
    ("unobserved", "stale"),
    ("pipeline_waiting", "waiting_requests"),
    ("pipeline_waiting", "startup"),
    ("pipeline_waiting", "stall"),
    ("reserved_memory", ""),
    ("idle_compute", ""),
    ("throttled", ""),
    ("unbalanced", ""),
    ("oversized", ""),
    ("underfilled", ""),
    ("productive", ""),
}


@pytest.mark.parametrize("gpus", [8, 9, 13, 24, 60, 333, 1000, 10_000])
def test_a_fleet_has_as_many_cards_as_asked_for_in_all_three_clusters(gpus: int) -> None:
    fleet = make_fleet(gpus, 1)
    cards = Counter({cluster: sum(node.cards for node in fleet.in_cluster(cluster)) for cluster in CLUSTERS})
    assert cards.total() == gpus
    if gpus >= 60:
        assert [round(cards[cluster] / gpus, 1) for cluster in (ALDER, CIRRUS, DRIFT)] == [0.5, 0.3, 0.2]
    assert len({slot.gpu_uuid for node in fleet.nodes for slot in node.slots}) == gpus


def test_the_same_parameters_make_the_same_plan_and_others_another() -> None:
    one, again, other = (make_plan(Parameters(24, 48, seed, UNTIL_AT)) for seed in (5, 5, 6))
    assert one.runs == again.runs
    assert one.troubles == again.troubles
    assert one.runs != other.runs


def test_no_card_does_two_things_at_once(plan: Plan) -> None:
    busy: dict[int, int] = {}
    for use in sorted(plan.uses, key=lambda use: (use.slot, use.start)):
        assert use.start < use.end <= plan.window.minutes
        assert use.start >= busy.get(use.slot, 0), use
        busy[use.slot] = use.end


def test_nobody_holds_a_node_that_is_not_there(plan: Plan) -> None:
    for trouble in plan.troubles:
        if trouble.kind == ABSENT:
            for run in plan.runs_by_node.get(trouble.node, []):
                assert run.until(plan.window) <= trouble.start or run.start >= trouble.end


def test_all_time_in_inventory_is_in_exactly_one_state(plan: Plan) -> None:
    for node in plan.fleet.nodes:
        present = sum(end - start for start, end in plan.presence(node))
        total = sum(float(by_date.sum()) for by_date in split_node(plan, node).values())
        assert total == pytest.approx(node.cards * present * 60e6, rel=1e-12)


def test_a_fleet_of_sixty_has_every_state_that_the_ledger_knows() -> None:
    plan = plan_of(60, 120, 7)
    found = {part[1:] for node in plan.fleet.nodes for part in split_node(plan, node)}
    assert found == EVERY_STATE


def test_what_waits_for_a_busy_card_or_would_fit_a_slice_is_on_spot_nodes_alone(plan: Plan) -> None:
    """Elsewhere there is neither a quiet card beside one at 80 % of one service or pool (`unbalanced`), nor work that would
    fit into a smaller MIG profile (`oversized`): what works at under 20 % of a card that can be split keeps more than half of
    its memory."""
    minutes = np.arange(plan.window.minutes)
    slots = {slot.number: node for node in plan.fleet.nodes for slot in node.slots}
    for use in plan.uses:
        node = slots[use.slot]
        activity = use.load.activity(minutes[use.start : use.end], use.start, use.slot) / 1e6
        if node.role == BATCH or (node.cluster == CIRRUS and node.role != "shared"):
            assert activity.max(initial=0.0) < 0.80
        if 0 < activity.mean() <= 0.20 and node.role not in ("shared", SPOT):
            memory = next(slot.memory_mib for slot in node.slots if slot.number == use.slot)
            assert use.load.memory_mib * 1.1 > memory / 2


def test_a_minute_is_idle_or_well_above_the_threshold(plan: Plan) -> None:
    minutes = np.arange(plan.window.minutes)
    for use in plan.uses:
        activity = use.load.activity(minutes[use.start : use.end], use.start, use.slot)
        assert ((activity == 0) | (activity > 60_000)).all()
        assert activity.max(initial=0) <= 960_000


def test_bills_lack_the_last_two_days_of_a_long_plan_and_none_of_a_short_one() -> None:
    long, short = plan_of(24, 120, 3), plan_of(24, 48, 3)
    assert long.window.at(long.billed_until) == datetime(2026, 11, 3)
    assert short.billed_until == short.window.minutes
