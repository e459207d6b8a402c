"""Slurm's resources, times, durations and node lists, value by value."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from collectors.slurm import nodelist, tres
from collectors.slurm.gres import gpus_of_gres, parse_gres
from collectors.slurm.times import is_local, parse_duration, parse_time
from collectors.times import AmbiguousTimeError

NEW_YORK = ZoneInfo("America/New_York")


@pytest.mark.parametrize(
    ("text", "count", "model"),
    [
        ("cpu=48,gres/gpu=4,gres/gpu:a100=4", 4, "a100"),  # cases.md B02 a: one fact, said twice
        ("gres/gpu:a100=2", 2, "a100"),  # b
        ("gres/gpu:a100=2,gres/gpu:v100=2", 4, None),  # c
        ("billing=78,cpu=48,gres/gpu:a100_80=4,gres/gpu=4,mem=384G,node=1", 4, "a100_80"),
        ("gres/gpu:a100=1,gres/gpu=3", 3, "a100"),  # the untyped total stands
        ("cpu=4,gres/gpu=1", 1, None),  # B16
        ("cpu=4,gres/gpu=0", 0, None),
        ("gres/gpu=0,gres/gpu:a100=0", 0, None),
        ("cpu=64,mem=400G", None, None),  # B03: absent is not zero
        ("gres/gpumem=40G,gres/gpuutil=90,gres/shard=2", None, None),
        ("", None, None),
    ],
)
def test_gpus_are_the_untyped_count_or_else_the_sum_of_the_typed(text: str, count: int | None, model: str | None) -> None:
    held = tres.gpus(tres.parse_tres(text))
    assert (held.count, held.model) == (count, model)


@pytest.mark.parametrize(
    ("text", "count", "model"),
    [
        ("gpu:2", 2, None),
        ("gpu:tesla:2", 2, "tesla"),
        ("gres:gpu:2", 2, None),
        ("gpu:h100:4(S:0-1),gpu:a100:4,gpu:1g.10gb:2", 10, None),
        ("gpu", 1, None),
        ("gpu:h100:2(IDX:0,3)", 2, "h100"),
        ("craynetwork:1", None, None),
        ("", None, None),
    ],
)
def test_an_older_gres_is_counted_too(text: str, count: int | None, model: str | None) -> None:
    held = gpus_of_gres(parse_gres(text))
    assert (held.count, held.model) == (count, model)


@pytest.mark.parametrize("text", ["gres/gpu=many", "gres/gpu=1.5", "gres/gpu=", "gres/gpu", "=3", "gres/gpu=99999999"])
def test_a_resource_list_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"GPUs|count"):
        tres.gpus(tres.parse_tres(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("384G", 384 * 2**30),
        ("10000M", 10000 * 2**20),
        ("1.50T", 3 * 2**39),
        ("8000", 8000 * 2**20),
        ("4Gn", 8 * 2**30),  # per node, two nodes
        ("2Gc", 12 * 2**30),  # per CPU, six CPUs
        ("16G?", 16 * 2**30),
        ("0", None),
        ("", None),
    ],
)
def test_memory_is_in_bytes(text: str, expected: int | None) -> None:
    assert tres.parse_bytes(text, cpus=6, nodes=2) == expected


def test_memory_per_something_unknown_is_unknown() -> None:
    assert tres.parse_bytes("2Gc") is None
    with pytest.raises(ValueError, match="no memory size"):
        tres.parse_bytes("lots")


@pytest.mark.parametrize(("text", "expected"), [("1", 1), ("0.00K", 0), ("1.5K", 1500), ("", None)])
def test_a_shortened_count_is_written_out(text: str, expected: float | None) -> None:
    assert tres.parse_count(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1796020036", datetime(2026, 11, 30, 6, 27, 16)),
        ("2026-11-30T06:27:16+00:00", datetime(2026, 11, 30, 6, 27, 16)),
        ("2025-05-02T14:09:52+02:00", datetime(2025, 5, 2, 12, 9, 52)),
        ("2025-05-02T14:09:52+0200", datetime(2025, 5, 2, 12, 9, 52)),
        ("2026-11-01T00:00:00", datetime(2026, 11, 1, 4)),  # local: still summer time
        ("2026-11-02T00:00:00", datetime(2026, 11, 2, 5)),
        ("Unknown", None),
        ("None", None),
        ("0", None),
        ("", None),
    ],
)
def test_a_time_becomes_an_instant(text: str, expected: datetime | None) -> None:
    assert parse_time(text, NEW_YORK) == expected


@pytest.mark.parametrize(("day", "hours"), [(("2026-11-01", "2026-11-02"), 25), (("2026-03-08", "2026-03-09"), 23)])
def test_the_day_of_a_clock_change_has_its_real_hours(day: tuple[str, str], hours: int) -> None:
    start, end = (parse_time(f"{date}T00:00:00", NEW_YORK) for date in day)  # cases.md B07

    assert start
    assert end
    assert (end - start).total_seconds() == hours * 3600


def test_a_repeated_hour_is_two_instants() -> None:
    with pytest.raises(AmbiguousTimeError, match="TZ=UTC"):  # cases.md B08
        parse_time("2026-11-01T01:30:00", NEW_YORK)
    assert parse_time("2026-11-01T01:30:00", None) == datetime(2026, 11, 1, 1, 30)
    assert parse_time("2026-11-01T01:30:00-05:00", NEW_YORK) == datetime(2026, 11, 1, 6, 30)


@pytest.mark.parametrize(
    "text",
    ["2026-03-08T02:30:00", "yesterday", "11/30-06:27", "99999999999", "1", "0001-01-01T00:00:00", "9999-12-31T23:59:59-12:00"],
)
def test_a_time_that_never_was_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"time|never was") as caught:
        parse_time(text, NEW_YORK)
    assert not isinstance(caught.value, AmbiguousTimeError)


def test_a_time_at_the_edge_of_the_calendar_is_refused_in_any_zone() -> None:
    for zone in (ZoneInfo("Asia/Tokyo"), ZoneInfo("America/New_York"), None):
        for text in ("0001-01-01T00:00:00", "9999-12-31T23:59:59"):
            with pytest.raises(ValueError, match="time of a job"):
                parse_time(text, zone)


def test_only_a_time_without_offset_is_local() -> None:
    assert is_local("2026-11-30T06:27:16")
    assert not is_local("2026-11-30T06:27:16Z")
    assert not is_local("1796020036")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("32:22.545", 1942.545),
        ("00:00:06", 6),
        ("5-23:01:30", 514890),
        ("5-00:00:00", 432000),
        ("93", 93),
        ("UNLIMITED", None),
        ("Partition_Limit", None),
        ("", None),
    ],
)
def test_a_duration_is_in_seconds(text: str, expected: float | None) -> None:
    assert parse_duration(text) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["a while", "1:2:3:4", "-5", "9999999999999", "1" * 50])
def test_a_duration_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("gpu-2", ["gpu-2"]),
        ("c1-[9-10],gpu-7", ["c1-9", "c1-10", "gpu-7"]),
        ("n[001-003]", ["n001", "n002", "n003"]),
        ("None assigned", []),
        ("", []),
    ],
)
def test_a_node_list_is_expanded(text: str, nodes: list[str]) -> None:
    assert list(nodelist.expand(text)) == nodes


@pytest.mark.parametrize(
    "text", ["@all", "n[1-999999999]", "n[1-9999999999999]", "n[3-", "n[1-150000]m[1-150000]", "a b", "n[5-3]"]
)
def test_a_node_list_that_names_no_nodes_or_too_many_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="node"):
        nodelist.expand(text)
