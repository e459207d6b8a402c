"""One live Slurm in five forms; the sums are worked by hand in recordings/README.md."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from pathlib import Path

import pytest

from collectors.slurm.parse import SlurmOutput, parse_output
from collectors.slurm.records import Reading, SourceFailedError

RECORDINGS = Path(__file__).parent / "recordings"
FORMS = (
    "sacct_parsable_all_steps.txt",
    "sacct_parsable_x.txt",
    "sacct_unit_separator.txt",
    "sacct_epoch.txt",
    "sacct.json",
)
GPU_SECONDS = {
    "1": 10, "2": 10, "3": 28, "5": 3, "6": 6, "7": 132, "8": 27 + 30, "9": 10, "11": 0, "12": 99, "13": 0, "14": 0, "15": 0,
    "16": 4, "17": 4, "18": 4, "19": 4, "4": 4,
}  # fmt: skip


def parse(name: str) -> SlurmOutput:
    return parse_output((RECORDINGS / name).read_bytes(), name, Reading())


def gpu_seconds(output: SlurmOutput) -> dict[str, float]:
    sums: dict[str, float] = defaultdict(float)
    for row in output.rows:
        held = (row["ended_at"] - row["started_at"]).total_seconds() if row["started_at"] else 0
        sums[row["job_id"]] += (row["gpu_count"] or 0) * held
    return dict(sums)


@pytest.mark.parametrize("name", FORMS)
def test_every_form_gives_the_gpu_seconds_worked_by_hand(name: str) -> None:
    output = parse(name)

    assert output.rejects == []
    assert len(output.rows) == 20
    assert gpu_seconds(output) == GPU_SECONDS
    assert sum(GPU_SECONDS.values()) == 375


@pytest.mark.parametrize("name", FORMS[1:])
def test_every_form_gives_the_same_attempts(name: str) -> None:
    # the exit code of a failed job is 0 in this version's JSON; only JSON has limits and steps here, -X has no steps
    left_out = {"line_number", "exit_code", "time_limit_seconds", "cpu_seconds", "labels", "qos"}

    def comparable(output: SlurmOutput) -> list[tuple[tuple[str, str], ...]]:
        return sorted(tuple(sorted((k, str(v)) for k, v in row.items() if k not in left_out)) for row in output.rows)

    assert comparable(parse(name)) == comparable(parse(FORMS[0]))


def test_the_separator_inside_a_name_is_put_back() -> None:
    [row] = [row for row in parse("sacct_parsable_all_steps.txt").rows if row["job_id"] == "3"]

    assert row["name"] == "train|llama `70b`"
    assert (row["namespace"], row["queue"], row["gpu_count"], row["gpu_model"]) == ("research", "gpu", 4, "h100")


def test_a_job_that_never_began_holds_nothing_whatever_its_tres_says() -> None:
    attempts = [row for row in parse("sacct_epoch.txt").rows if row["job_id"] == "12"]

    assert [(row["state"], row["started_at"], row["gpu_count"], row["node_list"]) for row in attempts] == [
        ("NODE_FAIL", datetime(2026, 11, 30, 6, 27, 41), 1, "vm"),
        ("CANCELLED", None, 1, None),
    ]
    assert [row["suspended_seconds"] for row in attempts] == [6.0, None]


def test_the_steps_say_how_a_job_was_started_and_the_ids_what_it_is_part_of() -> None:
    labels = {row["job_id"]: row["labels"] for row in parse("sacct_parsable_all_steps.txt").rows}

    assert labels["1"] == '{"batch": true}'
    assert labels["4"] == '{"array_job_id": "4", "array_task_id": "5", "batch": true}'
    assert labels["15"] == '{"het_job_id": "14", "het_offset": "1"}'
    assert {row["labels"] for row in parse("sacct_parsable_x.txt").rows if row["job_id"] == "1"} == {None}


def test_an_output_is_dated_by_its_last_instant_so_that_landing_it_again_changes_nothing() -> None:
    output = parse("sacct.json")

    assert {row["observed_at"] for row in output.rows} == {output.observed_at} == {datetime(2026, 11, 30, 6, 32, 21)}
    assert output.source_version == "slurm 22.05.8"


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("sacct_long_fixed_width.txt", "--parsable2"), ("scontrol_nodes.txt", "--at")],
)
def test_an_output_that_cannot_be_read_says_how_to_save_it(name: str, remedy: str) -> None:
    with pytest.raises(SourceFailedError, match=f"{name}.*{remedy}"):
        parse(name)


def test_local_times_read_without_a_zone_are_said_to_be() -> None:
    assert [note for note in parse("sacct_parsable_x.txt").notes if "--time-zone" in note]
    assert parse("sacct_epoch.txt").notes == []
