"""`sacctmgr show event`: the intervals in which nodes were out of service."""

from __future__ import annotations

from datetime import datetime

import pytest

from collectors.slurm import events
from collectors.slurm.records import Reading
from tests.unit.collectors.slurm.helpers import picked, rows_of

COLUMNS = ("cluster", "node", "state", "reason", "started_at", "ended_at")
DEFAULT = """\
Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User
oci||2025-12-01T00:00:00|Unknown||Cluster Registered TRES|
oci|gpu-290|2025-12-12T09:31:19|Unknown|DRAIN|Not responding|slurm(450)
oci|gpu-417|2025-12-10T23:50:01|2025-12-11T00:17:08|DOWN*|Not responding|slurm(450)
oci|gpu-364|2025-12-11T00:55:41|2025-12-11T01:15:32|DRAIN|[HC] temp | fan|root(0)
oci|gpu-1|2025-12-11T00:55:41|2025-12-11T01:15:32|IDLE||root(0)
"""
EXPECTED = [
    ("oci", "gpu-290", "drained", "Not responding", datetime(2025, 12, 12, 9, 31, 19), None),
    ("oci", "gpu-364", "drained", "[HC] temp|fan", datetime(2025, 12, 11, 0, 55, 41), datetime(2025, 12, 11, 1, 15, 32)),
    ("oci", "gpu-417", "down", "Not responding", datetime(2025, 12, 10, 23, 50, 1), datetime(2025, 12, 11, 0, 17, 8)),
]


def test_events_are_states_with_both_ends() -> None:
    parsed = rows_of(DEFAULT, cluster=None, at=None)

    assert picked(parsed, "node_states", *COLUMNS) == sorted(EXPECTED, key=repr)
    assert parsed.rejects == []


def test_the_columns_are_found_by_name_with_a_closing_delimiter_or_without() -> None:
    text = (
        "Cluster|Cluster Nodes|Duration|TimeStart|TimeEnd|Event|EventRaw|NodeName|State|StateRaw|TRES|User|Reason|\n"
        "oci||00:27:07|2025-12-10T23:50:01|2025-12-11T00:17:08|Node|2|gpu-417|DOWN|1|cpu=224|slurm(450)|Not responding|\n"
    )

    assert picked(rows_of(text, cluster=None), "node_states", *COLUMNS) == [EXPECTED[2]]


def test_times_without_offset_are_read_in_the_zone_and_a_repeated_hour_is_quarantined() -> None:
    text = (
        "Cluster|NodeName|TimeStart|TimeEnd|State|Reason\n"
        "a|n1|2026-11-01T00:30:00|2026-11-01T03:00:00|DOWN|x\n"
        "a|n2|2026-11-01T01:30:00|2026-11-01T03:00:00|DOWN|x\n"
    )
    parsed = rows_of(text, reading=Reading(time_zone="America/New_York"))

    # 00:30 in summer time, 03:00 in winter time
    assert picked(parsed, "node_states", "node", "started_at", "ended_at") == [
        ("n1", datetime(2026, 11, 1, 4, 30), datetime(2026, 11, 1, 8))
    ]
    assert [(reject.line, reject.reason) for reject in parsed.rejects] == [(3, "ambiguous_local_time")]


def test_clusters_of_a_federation_are_kept_apart() -> None:
    parsed = rows_of(DEFAULT + DEFAULT.replace("oci|", "aws|"))

    assert {row["cluster"] for row in parsed.tables["node_states"]} == {"aws", "oci"}


@pytest.mark.parametrize(
    "line",
    ["oci|n1|Unknown|Unknown|DOWN|x|root", "oci|n1|2025-12-11T00:00:00|2025-12-10T00:00:00|DOWN|x|root",
     "oci|n1|2025-12-11T00:00:00|Unknown|SLEEPY|x|root", "oci|n1|2025-12-11T00", "oci|n1|yesterday|Unknown|DOWN|x|root"],
)  # fmt: skip
def test_an_event_that_is_none_is_quarantined_and_the_rest_lands(line: str) -> None:
    parsed = rows_of(f"{DEFAULT}{line}\n", cluster=None)

    assert len(parsed.tables["node_states"]) == 3
    assert [(reject.line, reject.reason) for reject in parsed.rejects] == [(7, "malformed")]


def test_the_live_command_takes_only_what_has_ended() -> None:
    parsed = events.read(DEFAULT, "sacctmgr", None, only_ended=True)

    assert picked(parsed, "node_states", "node") == [("gpu-364",), ("gpu-417",)]
