"""The reference itself, against the examples that semantics.md and the scenarios work by hand."""

from __future__ import annotations

import csv
from collections import Counter

import pytest

from tests.reference.fleet import make_fleet
from tests.reference.ledger import ledger, pieces
from tests.reference.world import make_world, read_world, stamp
from tests.scenarios.worlds import Scenario, scenarios

EXPECTED = "fct_gpu_ledger_hourly"
#: states whose reasons the reference does not look into
WITHOUT_REASON = {"unobserved", "out_of_service"}
#: columns of an expected ledger that the reference does not know
UNKNOWN = {"workload_id", "is_ghost", "cost", "currency", "cost_source", "gpu_model", "energy_kwh"}
#: scenarios of what devices, runs and clocks are called or said to be, which the reference takes at their word
BEYOND = {
    "a_card_taken_out_under_a_run_leaves_with_its_place": "places of devices",
    "a_clock_that_runs_ahead_is_set_right": "clocks of nodes",
    "a_compute_instance_is_a_share_of_its_gpu_instance": "names of MIG instances",
    "a_label_that_names_a_job_by_another_id_is_joined_or_ignored": "other ids of jobs",
    "a_pod_that_its_collector_calls_a_reservation_holds_nothing": "reservations told by the collector",
    "a_process_seen_on_a_slice_by_another_name_ranks_it_first": "names of MIG instances",
    "a_profile_rounded_to_another_gigabyte_is_the_same": "names of MIG profiles",
    "an_address_is_the_card_that_sat_there_then": "places of devices",
    "an_id_used_again_a_year_later_is_another_job": "ids of jobs used again",
    "before_its_first_sighting_a_device_is_implied": "devices before they were seen",
    "tasks_of_an_array_and_parts_of_a_job_are_runs_of_their_own": "other ids of jobs",
    "two_instances_on_a_card_of_one_index_are_two": "names of MIG instances",
    "two_sources_call_one_slice_by_two_names": "names of MIG instances",
    "without_a_number_the_only_instance_of_a_profile_is_known_by_both_names": "names of MIG instances",
}


def _expects_time(scenario: Scenario) -> bool:
    path = scenario.folder / "expected" / f"{EXPECTED}.csv"
    return path.exists() and any(name in path.read_text().splitlines()[0] for name in ("gpu_hours", "gpu_microseconds"))


WITH_LEDGER = [
    pytest.param(
        scenario,
        id=scenario.name,
        marks=[pytest.mark.xfail(reason=f"not known to it: {BEYOND[scenario.name]}", strict=True)]
        if scenario.name in BEYOND
        else [],
    )
    for scenario in scenarios()
    if _expects_time(scenario)
]


@pytest.mark.parametrize("scenario", WITH_LEDGER)
def test_the_reference_gets_what_was_worked_by_hand(scenario: Scenario) -> None:
    with (scenario.folder / "expected" / f"{EXPECTED}.csv").open(newline="") as text:
        expected = list(csv.DictReader(text))
    keys = [name for name in expected[0] if name not in UNKNOWN and name not in ("gpu_hours", "gpu_microseconds")]
    want: Counter[tuple[str, ...]] = Counter()
    for row in expected:
        want[tuple(_cell(row, key) for key in keys)] += _microseconds(row)
    have: Counter[tuple[str, ...]] = Counter()
    for cluster in sorted(scenario.clusters):
        world = read_world(scenario.folder / "raw", cluster)
        nodes = {record.gpu: record.node for record in world.inventory}
        for row in ledger(world):
            named = {
                "cluster": cluster,
                "usage_date": stamp(row.hour)[:10],
                "hour_start_at": stamp(row.hour),
                "node": nodes.get(row.gpu) or row.gpu.removeprefix(f"{cluster}/").split("#")[0],
                "gpu_id": row.gpu,
                "slot_id": row.slot_id,
                "run_id": row.run_id,
                "state": row.state,
                "state_reason": row.reason,
                "signal_source": row.signal,
            }
            have[tuple(_cell(named, key) for key in keys)] += row.microseconds
    # hours are worked by hand to nine decimals
    tolerance = 0 if "gpu_microseconds" in expected[0] else 4
    differing = {key: (want[key], have[key]) for key in want.keys() | have.keys() if abs(want[key] - have[key]) > tolerance}
    assert not differing


@pytest.mark.parametrize("seed", range(6))
def test_the_states_of_a_random_fleet_add_up_to_its_capacity(seed: int) -> None:
    fleet = make_fleet(seed)
    world = make_world(fleet.cluster, fleet.tables())
    exact: Counter[tuple[int, str]] = Counter()
    for piece in pieces(world):
        exact[piece.hour, piece.gpu] += piece.us  # type: ignore[assignment]
    rows: Counter[tuple[int, str]] = Counter()
    for row in ledger(world):
        rows[row.hour, row.gpu] += row.microseconds
    assert rows == exact
    assert max(rows.values()) <= 3_600_000_000


def _cell(row: dict[str, str], key: str) -> str:
    return "" if key == "state_reason" and row["state"] in WITHOUT_REASON else row[key]


def _microseconds(row: dict[str, str]) -> int:
    if row.get("gpu_microseconds"):
        return int(row["gpu_microseconds"])
    return round(float(row["gpu_hours"]) * 3_600_000_000)
