"""Answers of readers → rows, where a process would take too long to bring it about."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from collectors.nvml.grid import instant
from collectors.nvml.readers import Pause
from collectors.nvml.sample import Fleet, grown, unmatched, xid_of

T0, TEN = 1_796_000_000_000, 10_000
GPU = "GPU-a"


def answer(at: int, *, uuid: str = GPU, index: int = 0, energy: int | None = None, **more: Any) -> dict[str, Any]:
    described = {"gpu_model": "H100", "pci_bus_id": "0:1", "slots": [{"uuid": None}]}
    return {
        "at": at,
        "index": index,
        "status": "ok",
        "uuid": uuid,
        "xids": [],
        "card": {"values": {}, "missing": {}},
        "counters": {} if energy is None else {"energy_joules": energy},
        "slots": [{"uuid": None, "values": {"gpu_utilization_ratio": 0.5}, "rates": {}, "missing": {}}],
        "described": described,
        **more,
    }


def samples(fleet: Fleet, message: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for table, row in fleet.answer(message) if table == "gpu_samples"]


@pytest.mark.parametrize(
    ("readings", "joules"),
    [
        ([0, 3_000_000, 6_000_000], [None, 3000, 3000]),
        # begun again at 0: one interval unknown, then counted from there
        ([9_000_000, 1_000_000, 4_000_000], [None, None, 3000]),
        # one reading that drops and comes back: half of what the two intervals took is the second's
        ([3_000_000, 0, 9_000_000], [None, None, 3000]),
    ],
)
def test_the_energy_counter_survives_resets_and_glitches(readings: list[int], joules: list[float | None]) -> None:
    fleet = Fleet(TEN)
    rows = [samples(fleet, answer(T0 + TEN * n, energy=value))[0] for n, value in enumerate(readings)]
    assert [row.get("energy_joules") for row in rows] == joules
    assert rows[0]["missing"]["energy_joules"] == "gap"


def test_energy_over_a_gap_is_shared_by_time() -> None:
    fleet = Fleet(TEN)
    samples(fleet, answer(T0, energy=0))
    *gaps, row = samples(fleet, answer(T0 + 6 * TEN, energy=6_000_000))
    assert (row["interval_ms"], row["energy_joules"]) == (25_000, 2500)
    assert sum(gap["interval_ms"] for gap in gaps) == 35_000


def test_a_byte_counter_that_wraps_is_left_out_where_it_falls() -> None:
    points = [(instant(T0), 4.0e9), (instant(T0 + TEN), 1.0e9), (instant(T0 + 2 * TEN), 2.0e9)]
    assert grown(points[:2], "pcie_rx_bytes", T0, T0 + TEN) is None
    assert grown(points, "pcie_rx_bytes", T0 + TEN, T0 + 2 * TEN) is None
    assert grown(points[1:], "pcie_rx_bytes", T0 + TEN, T0 + 2 * TEN) == 1_000_000_000


def test_an_answer_without_activity_now_is_made_good_by_the_next_one() -> None:
    fleet = Fleet(TEN)
    samples(fleet, answer(T0))
    silent = [{"uuid": None, "values": {}, "rates": {}, "missing": {"gpu_utilization_ratio": "gap"}}]
    assert samples(fleet, answer(T0 + TEN, slots=silent)) == []
    (row,) = samples(fleet, answer(T0 + 2 * TEN))
    assert row["interval_ms"] == 2 * TEN


def test_an_answer_that_comes_twice_is_told_once() -> None:
    fleet = Fleet(TEN)
    assert len(samples(fleet, answer(T0, energy=1))) == 1
    assert samples(fleet, answer(T0, energy=1)) == []


def test_a_replaced_card_in_the_same_place_ends_the_one_before() -> None:
    fleet = Fleet(TEN)
    list(fleet.answer(answer(T0)))
    fleet.open({0: "GPU-b"}, [])
    list(fleet.answer(answer(T0 + TEN, uuid="GPU-b")))
    assert set(fleet.devices) == {"GPU-b"}


def test_a_vanished_card_is_lost_for_a_day_and_then_forgotten() -> None:
    fleet = Fleet(TEN)
    list(fleet.answer(answer(T0)))
    fleet.open({}, [])
    rows = list(fleet.tick(T0 + TEN, 0, lambda _: None))
    assert [table for table, _ in rows] == ["gpu_samples", "gpu_inventory"]
    assert rows[1][1]["is_lost"] is True
    list(fleet.tick(T0 + round(timedelta(days=1, seconds=30) / timedelta(milliseconds=1)), 0, lambda _: None))
    assert fleet.devices == {}


def test_a_gpu_that_does_not_open_is_the_one_known_at_its_index_or_the_only_one_missing() -> None:
    assert unmatched({"a": 0, "b": 1}, {0: "a", 1: None}) == {1: "b"}
    # the driver numbers them anew when one is gone
    assert unmatched({"a": 0, "b": 1, "c": 2}, {0: None, 1: "b", 2: "c"}) == {0: "a"}
    assert unmatched({"a": 0, "b": 5}, {0: "a", 1: None}) == {1: "b"}
    assert unmatched({}, {0: None}) == {}


def test_of_several_xids_the_one_of_the_lost_bus_decides() -> None:
    assert (xid_of([]), xid_of([31, 48]), xid_of([79, 48])) == (0, 48, 79)


def test_pauses_double_up_to_their_longest_and_begin_anew() -> None:
    pause = Pause(5, 30)
    ends = []
    for _ in range(5):
        pause.fail(0)
        ends.append(pause.next_at)
    assert ends == [5, 10, 20, 30, 30]
    pause.succeed()
    assert pause.next_at == 0
