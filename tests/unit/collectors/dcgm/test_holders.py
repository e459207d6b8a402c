from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.dcgm.history import Hold
from collectors.dcgm.holders import follow
from collectors.dcgm.labels import Holder, Slot
from collectors.dcgm.parse import Reading

START = datetime(2026, 11, 1, 12, 1)
MINUTE = timedelta(minutes=1)
PATIENCE = 2.5 * MINUTE
SLOT = Slot("GPU-1", None)

Before = tuple[datetime | None, Sequence[Hold]]


def readings(*scrapes: tuple[float, str], node: str = "n") -> list[Reading]:
    """One per (minute, holders: names by blanks, `ns/pod` or an id)."""
    found = []
    for minute, names in scrapes:
        parts = [(name, *name.partition("/")) for name in names.split()]
        holders = (Holder(first, pod, None) if slash else Holder(None, None, name) for name, first, slash, pod in parts)
        found.append(Reading(SLOT, START + minute * MINUTE, node, "a", 1, {}, {}, frozenset(holders)))
    return found


def told(rows: Sequence[Any]) -> list[tuple[str, float, float | None, float | None]]:
    """(job, start, end, share) of rows, in minutes."""

    def minute(at: datetime | None) -> float | None:
        return None if at is None else (at - START) / MINUTE

    ordered = sorted(rows, key=lambda row: (row["started_at"], row["job_id"]))
    return [(row["job_id"], minute(row["started_at"]) or 0.0, minute(row["ended_at"]), row["share_ratio"]) for row in ordered]


def after(*scrapes: tuple[float, str], before: Before = (None, ())) -> tuple[list[Any], Before]:
    found = readings(*scrapes)
    rows, holds = follow("c", SLOT, found, before, PATIENCE)
    return told(rows), (found[-1].at, holds)


def test_a_holder_has_one_row_from_the_first_scrape_that_shows_it() -> None:
    rows, _ = after((0, "d/a"), (1, "d/a"), (2, "d/a"))
    assert rows == [("d/a", 0, None, None)]


def test_a_holder_known_from_the_call_before_has_no_second_row() -> None:
    _, before = after((0, "d/a"), (1, "d/a"))
    assert after((2, "d/a"), (3, "d/a"), before=before)[0] == []


def test_a_name_that_is_gone_ends_at_the_first_scrape_that_did_not_show_it() -> None:
    assert after((0, "d/a"), (1, ""), (2, ""), (3, ""), (4, ""))[0] == [("d/a", 0, 1, None)]
    # in the call after that
    _, before = after((0, "d/a"), (1, ""))
    assert after((2, ""), (3, ""), before=before)[0] == [("d/a", 0, 1, None)]


def test_a_label_that_is_lost_for_a_scrape_or_two_ends_nothing() -> None:
    assert after((0, "d/a"), (1, ""), (2, ""), (2.4, "d/a"), (3, "d/a"))[0] == [("d/a", 0, None, None)]


def test_one_that_follows_another_has_the_slot_alone_and_the_other_is_ended() -> None:
    rows, _ = after((0, "d/a"), (1, "d/b"), (2, "d/b"), (3, "d/b"))
    assert rows == [("d/a", 0, 1, None), ("d/b", 1, None, None)]


def test_several_at_one_instant_share_evenly_from_then_on() -> None:
    rows, before = after((0, "d/a"), (1, "d/a d/b"), (2, "d/a d/b"))
    assert rows == [("d/a", 0, 1, None), ("d/a", 1, None, 0.5), ("d/b", 1, None, 0.5)]
    # one of them lost for a scrape shares on; gone, the other has all of it from when it was first missed
    assert after((3, "d/a"), (4, "d/a d/b"), before=before)[0] == []
    rows, _ = after((3, "d/a"), (4, "d/a"), (5, "d/a"), before=before)
    assert rows == [("d/a", 1, 3, 0.5), ("d/b", 1, 3, 0.5), ("d/a", 3, None, None)]


def test_an_exporter_that_shows_now_the_one_and_now_the_other_pod_of_a_shared_card_makes_two_rows_not_hundreds() -> None:
    """A02: without its flag for shared GPUs the exporter names one of the pods, whichever comes last."""
    rows, _ = after(*((minute, f"d/{'ab'[minute % 2]}") for minute in range(40)))
    assert [(job, start, end) for job, start, end, _ in rows] == [("d/a", 0, None), ("d/b", 1, None)]


def test_a_name_is_evidence_anew_with_each_hour_and_an_id_is_not() -> None:
    rows, _ = after((57, "d/a 4711"), (58, "d/a 4711"), (59, "d/a 4711"), (60, "d/a 4711"))
    assert rows == [("4711", 57, None, 0.5), ("d/a", 57, 59, 0.5), ("d/a", 59, None, 0.5)]


def test_after_a_gap_in_the_scrapes_each_holder_is_evidence_anew() -> None:
    rows, _ = after((0, "d/a"), (1, "d/a"), (10, "d/a"))
    assert rows == [("d/a", 0, 10, None), ("d/a", 10, None, None)]
    rows, _ = after((0, "d/a"), (10, "d/b"))
    assert rows == [("d/a", 0, 10, None), ("d/b", 10, None, None)]


def test_a_device_that_moved_to_another_node_is_held_there() -> None:
    _, before = after((0, "d/a"))
    rows, _ = follow("c", SLOT, readings((1, "d/a"), node="m"), before, PATIENCE)
    assert [(row["node"], row["started_at"], row["ended_at"]) for row in rows] == [
        ("n", START, START + MINUTE),
        ("m", START + MINUTE, None),
    ]


SCRAPES = st.lists(
    st.tuples(st.sampled_from([1, 1, 1, 2, 7]), st.sampled_from(["", "d/a", "d/b", "d/a d/b", "u d/a"])), max_size=25
)


@settings(max_examples=300, deadline=None)
@given(SCRAPES, st.integers(0, 25))
def test_one_call_or_two_tell_the_same_and_no_holder_has_two_rows_at_a_time(steps: list[tuple[int, str]], cut: int) -> None:
    minute = 0.0
    scrapes: list[tuple[float, str]] = []
    for step, names in steps:
        minute += step
        scrapes.append((minute, names))
    whole, _ = follow("c", SLOT, readings(*scrapes), (None, ()), PATIENCE)
    first, holds = follow("c", SLOT, readings(*scrapes[:cut]), (None, ()), PATIENCE)
    last_at = START + scrapes[min(cut, len(scrapes)) - 1][0] * MINUTE if scrapes[:cut] else None
    second, _ = follow("c", SLOT, readings(*scrapes[cut:]), (last_at, holds), PATIENCE)
    # of two rows with one key the one landed last stands
    landed = {(row["job_id"], row["started_at"]): row for row in [*first, *second]}
    assert told(list(landed.values())) == told(whole)
    for job in {row["job_id"] for row in whole}:
        own = [row for row in told(whole) if row[0] == job]
        for (_, _, end, _), (_, start, _, _) in pairwise(own):
            assert end is not None
            assert end <= start
    seen = {(job, minute) for minute, names in scrapes for job in names.split()}
    for job, minute in seen:
        assert any(start <= minute and (end is None or minute < end) for name, start, end, _ in told(whole) if name == job)


@pytest.mark.parametrize("share", [1, 3])
def test_the_method_says_whether_the_share_is_an_estimate(share: int) -> None:
    rows, _ = follow("c", SLOT, readings((0, " ".join(f"d/{number}" for number in range(share)))), (None, ()), PATIENCE)
    assert {row["assignment_method"] for row in rows} == {"exporter_label" if share == 1 else "exporter_label_equal_split"}
