from __future__ import annotations

import numpy as np
import pytest

from collectors.simulate.hardware import DRIFT
from collectors.simulate.noise import unit, words
from collectors.simulate.painting import paint
from collectors.simulate.plan import FROZEN, LOST, SILENT, Plan
from collectors.simulate.readings import Readings, read_node
from tests.unit.collectors.simulate.conftest import plan_of

FIELDS = ("minute", "part", "activity", "memory_mib", "power_milliwatts", "temperature_celsius", "clock_mhz", "bits", "is_lost")


def _of_slot(readings: Readings, row: int) -> dict[str, list[int]]:
    return {name: getattr(readings, name)[readings.row == row].tolist() for name in FIELDS}


def test_chance_does_not_depend_on_the_pieces_it_is_asked_in() -> None:
    places = np.arange(1000)
    assert (words(7, places)[300:] == words(7, places[300:])).all()
    assert abs(unit(7, places).mean() - 0.5) < 0.05
    assert (words(7, places) != words(8, places)).all()


def test_an_hour_reads_the_same_in_whatever_piece_it_is_asked_for() -> None:
    plan = plan_of(60, 120, 7)
    for node in plan.fleet.nodes:
        whole, part = read_node(plan, node, 0, 2880, 6), read_node(plan, node, 1300, 1400, 6)
        chosen = (whole.minute >= 1300) & (whole.minute < 1400)
        for name in FIELDS:
            assert (getattr(whole, name)[chosen] == getattr(part, name)).all(), (node.name, name)


def test_jitter_leaves_the_mean_of_a_minute_as_it_was_planned(plan: Plan) -> None:
    for node in plan.fleet.nodes[::3]:
        painting = paint(plan, node, 600, 660)
        readings = read_node(plan, node, 600, 660, 6)
        for row in range(len(node.slots)):
            for minute in range(600, 660):
                mine = readings.activity[(readings.row == row) & (readings.minute == minute) & ~readings.is_lost]
                if len(mine) and not painting.is_frozen[row, minute - 600]:
                    assert mine.sum() == 6 * painting.activity[row, minute - 600]


def test_power_is_never_a_whole_number_of_watts_and_never_stands_still(plan: Plan) -> None:
    for node in plan.fleet.nodes[::3]:
        readings = read_node(plan, node, 0, 300, 6)
        assert (readings.power_milliwatts % 1000 != 0).all()
        for row in range(len(node.slots)):
            power = readings.power_milliwatts[(readings.row == row) & ~readings.is_lost]
            assert (np.diff(power) != 0).mean() > 0.99


def test_a_frozen_exporter_repeats_the_last_reading_it_made() -> None:
    plan = plan_of(60, 120, 7)
    frozen = next(trouble for trouble in plan.troubles if trouble.kind == FROZEN)
    node = plan.fleet.by_name[frozen.node]
    row = next(row for row, slot in enumerate(node.slots) if frozen.concerns(slot))
    found = _of_slot(read_node(plan, node, frozen.start - 1, frozen.end + 1, 6), row)
    for name in FIELDS[2:]:
        assert set(found[name][6:-6]) == {found[name][5]}, name
    assert found["power_milliwatts"][-6] != found["power_milliwatts"][5]


def test_a_silent_exporter_tells_nothing_and_a_lost_card_only_that_it_is_lost() -> None:
    plan = plan_of(60, 120, 7)
    silent = next(trouble for trouble in plan.troubles if trouble.kind == SILENT)
    assert not len(read_node(plan, plan.fleet.by_name[silent.node], silent.start, silent.end, 6).minute)
    lost = next(trouble for trouble in plan.troubles if trouble.kind == LOST)
    node = plan.fleet.by_name[lost.node]
    assert node.cluster == DRIFT
    row = next(row for row, slot in enumerate(node.slots) if lost.concerns(slot))
    found = _of_slot(read_node(plan, node, lost.start - 1, lost.end + 1, 6), row)
    assert found["is_lost"] == [False] * 6 + [True] + [False] * 6
    assert found["minute"][6] == lost.start


@pytest.mark.parametrize("per_minute", [1, 2, 6])
def test_instances_of_a_card_repeat_its_power(per_minute: int) -> None:
    plan = plan_of(60, 120, 7)
    node = next(node for node in plan.fleet.nodes if node.role == "mig")
    readings = read_node(plan, node, 700, 701, per_minute)
    cards = np.array([slot.card for slot in node.slots])[readings.row]
    for card in np.unique(cards):
        powers = readings.power_milliwatts[cards == card].reshape(-1, per_minute)
        assert (powers == powers[0]).all()
