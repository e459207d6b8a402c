"""The truth is worked out by rules of its own, so these are held to the worked examples of semantics.md."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pytest

from collectors.simulate.hardware import ALDER, DRIFT, H100, REPLICAS, Fleet, Node, Slot
from collectors.simulate.loads import Load, Nothing
from collectors.simulate.plan import DOWN, HOT, SILENT, Plan, Price, Run, Trouble, Use
from collectors.simulate.states import split_node
from collectors.simulate.window import Window


@dataclass(frozen=True)
class Scripted:
    """Activity by minute since the use began: the last level holds on."""

    levels: tuple[tuple[int, float], ...]
    memory_mib: int = 20_000

    def activity(self, minutes: npt.NDArray[np.int64], started: int, key: int) -> npt.NDArray[np.int64]:
        planned = [level for count, level in self.levels for _ in range(count)]
        return np.array([round(planned[minute - started] * 1e6) for minute in minutes], np.int64)


def _node(cluster: str, cards: int) -> Node:
    slots = tuple(Slot(number, number, "n1", number, f"GPU-{number}", 7, 81_559) for number in range(cards))
    return Node(cluster, "n1", "spot", H100, slots, "node")


def _plan(node: Node, minutes: int, runs: list[Run], uses: list[Use], troubles: list[Trouble] | None = None) -> Plan:
    window = Window(datetime(2026, 11, 2), minutes)
    prices = {"n1": [Price(Decimal(1), 0, minutes)]}
    fleet = Fleet((node,), {"n1": node})
    return Plan(window, 1, fleet, runs, uses, troubles or [], [], [], [], [], prices, minutes)


def _run(slots: tuple[int, ...], start: int, end: int, *, cluster: str = DRIFT, job_id: str = "1", kind: str = "training") -> Run:
    return Run(cluster, job_id, f"job-{job_id}", "ml", f"job-{job_id}", kind, "n1", slots, start, end, "COMPLETED", start)


def _minutes(plan: Plan) -> dict[tuple[str, str, str], float]:
    parts = split_node(plan, plan.fleet.nodes[0])
    return {(workload.rsplit("/", 1)[-1], *rest): float(by_date.sum()) / 60e6 for (workload, *rest), by_date in parts.items()}  # type: ignore[misc]


def test_the_worked_training_hour() -> None:
    load: Load = Scripted(((4, 0.9), (8, 0.9), (8, 0.0), (12, 0.9), (12, 0.0)))
    plan = _plan(
        _node(DRIFT, 1),
        60,
        [_run((0,), 16, 60)],
        [Use(0, 16, 60, load)],
        [
            Trouble(DOWN, "n1", 0, 6),
            Trouble(SILENT, "n1", 16, 20),
            Trouble(HOT, "n1", 36, 41, clock_ratio=0.8, bits=0x40),
        ],
    )
    assert _minutes(plan) == {
        ("unallocated", "out_of_service", "down"): 6,
        ("unallocated", "unallocated", "free"): 10,
        ("job-1", "unobserved", "gap"): 4,
        ("job-1", "pipeline_waiting", "stall"): 8,
        ("job-1", "reserved_memory", ""): 12,
        ("job-1", "throttled", ""): pytest.approx(1),
        ("job-1", "productive", ""): pytest.approx(19),
    }


def test_a_training_job_that_never_touches_its_eight_cards() -> None:
    plan = _plan(_node(DRIFT, 8), 120, [_run(tuple(range(8)), 0, 120)], [Use(card, 0, 120, Nothing(460)) for card in range(8)])
    assert _minutes(plan) == {("job-1", "pipeline_waiting", "startup"): 8 * 30, ("job-1", "idle_compute", ""): 8 * 90}


@pytest.mark.parametrize(
    ("activity", "expected"), [(0.9, {"unrequested_share": 6, "borrowed": 39}), (0.1, {"unrequested_share": 45})]
)
def test_a_card_time_sliced_by_four_with_one_pod(activity: float, expected: dict[str, float]) -> None:
    run = replace(_run((0,), 0, 60, kind="interactive"), share=1 / REPLICAS)
    plan = _plan(_node(DRIFT, 1), 60, [run], [Use(0, 0, 60, Scripted(((60, activity),)))])
    found = _minutes(plan)
    assert {reason or state: minutes for (who, state, reason), minutes in found.items() if who == "unallocated"} == {
        name: pytest.approx(minutes) for name, minutes in expected.items()
    }
    assert sum(minutes for (who, _, _), minutes in found.items() if who != "unallocated") == pytest.approx(15)


def test_jobs_of_one_node_share_its_working_cards_by_their_counts() -> None:
    runs = [_run((0, 1, 2), 0, 60, cluster=ALDER, job_id="1"), _run((3,), 0, 60, cluster=ALDER, job_id="2")]
    busy, idle = Scripted(((60, 0.7),)), Scripted(((60, 0.0),))
    plan = _plan(_node(ALDER, 5), 60, runs, [*(Use(card, 0, 60, busy) for card in range(3)), Use(3, 0, 60, idle)])
    found = _minutes(plan)
    assert found[("job-1", "productive", "")] == pytest.approx(180 * 3 / 4)
    assert found[("job-2", "productive", "")] == pytest.approx(180 / 4)
    # the first job is known to work, so that its part of the quiet card is no startup
    assert found[("job-1", "reserved_memory", "")] == pytest.approx(60 * 3 / 4)
    assert found[("unallocated", "unallocated", "free")] == 60


def test_a_suspension_is_spread_over_the_run() -> None:
    run = replace(_run((0,), 0, 100), suspended=25)
    plan = _plan(_node(DRIFT, 1), 120, [run], [Use(0, 0, 100, Scripted(((100, 0.5),)))])
    found = _minutes(plan)
    assert found[("job-1", "suspended", "position_unknown")] == pytest.approx(25)
    assert found[("job-1", "productive", "")] == pytest.approx(75)


def test_idle_time_between_two_active_minutes_is_a_stall_up_to_half_an_hour() -> None:
    load = Scripted(((5, 0.5), (30, 0.0), (5, 0.5), (31, 0.0), (5, 0.5)))
    plan = _plan(_node(DRIFT, 1), 76, [_run((0,), 0, 76)], [Use(0, 0, 76, load)])
    found = _minutes(plan)
    assert found[("job-1", "pipeline_waiting", "stall")] == 30
    assert found[("job-1", "reserved_memory", "")] == 31


def test_a_card_waits_for_a_busy_one_of_its_run_from_fifteen_minutes_on() -> None:
    quiet, busy = Scripted(((60, 0.1),), 60_000), Scripted(((14, 0.9), (10, 0.5), (15, 0.9), (21, 0.5)), 60_000)
    plan = _plan(_node(DRIFT, 2), 60, [_run((0, 1), 0, 60)], [Use(0, 0, 60, quiet), Use(1, 0, 60, busy)])
    assert _minutes(plan) == {
        ("job-1", "unbalanced", ""): pytest.approx(15 * 0.9),
        ("job-1", "underfilled", ""): pytest.approx(45 * 0.75),
        ("job-1", "productive", ""): pytest.approx(15 * 0.1 + 45 * 0.25 + 60),
    }


@pytest.mark.parametrize(
    ("level", "memory_mib", "minutes", "expected"),
    [
        (0.1, 8_000, 60, {"oversized": 60 * 6 / 7, "productive": 60 / 7}),
        (0.1, 16_000, 60, {"oversized": 60 * 6 / 7, "productive": 60 / 7}),
        (0.16, 16_000, 60, {"oversized": 60 * 5 / 7, "productive": 60 * 2 / 7}),
        (0.1, 38_000, 60, {"underfilled": 45, "productive": 15}),
        (0.1, 8_000, 59, {"underfilled": 59 * 0.75, "productive": 59 * 0.25}),
        (0.24, 8_000, 60, {"underfilled": 24, "productive": 36}),
    ],
)
def test_a_quiet_day_would_fit_a_slice_if_its_memory_does(
    level: float, memory_mib: int, minutes: int, expected: dict[str, float]
) -> None:
    load = Scripted(((minutes, level),), memory_mib)
    plan = _plan(_node(DRIFT, 1), minutes, [_run((0,), 0, minutes)], [Use(0, 0, minutes, load)])
    found = {state: value for (_, state, _), value in _minutes(plan).items()}
    assert found == {state: pytest.approx(value) for state, value in expected.items()}
