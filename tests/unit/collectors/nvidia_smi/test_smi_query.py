"""CSV of --query-gpu, --query-compute-apps, --query-accounted-apps."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from tests.unit.collectors.nvidia_smi.outputs import OTHER_UUID, QUERY, UUID, land


def test_a_log_becomes_samples_in_the_units_of_the_landing_shape(home: Path) -> None:
    landed = land(home, QUERY)
    assert landed.code == 0
    first, second, third = landed.samples
    assert first["gpu_uuid"] == UUID
    assert first["node"] == "node7"
    assert first["gpu_utilization_ratio"] == 0.97
    assert first["memory_used_bytes"] == 1024 << 20
    assert first["power_watts"] == 300.5
    assert second["gpu_utilization_ratio"] == 0.0
    assert third["gpu_utilization_ratio"] is None
    assert json.loads(third["missing"]) == {
        "gpu_utilization_ratio": "not_supported",
        "memory_used_bytes": "not_supported",
        "power_watts": "gap",
    }
    assert landed.inventory[0]["gpu_model"] == "NVIDIA L40S"


def test_a_reading_stands_for_the_time_since_the_one_before(home: Path) -> None:
    late = QUERY + f"2026/07/14 09:10:00.500, 0, {UUID}, NVIDIA L40S, 5 %, 1 MiB, 46068 MiB, 80.00 W\n"
    lengths = [(row["interval_start_at"], row["interval_ms"]) for row in land(home, late).samples]
    assert lengths == [
        (datetime(2026, 7, 14, 8, 59, 50, 500_000), 10_000),  # the first one: a nominal interval, the median of the file
        (datetime(2026, 7, 14, 9, 0, 0, 500_000), 10_000),
        (datetime(2026, 7, 14, 9, 0, 10, 500_000), 10_000),
        (datetime(2026, 7, 14, 9, 9, 35, 500_000), 25_000),  # after a gap: at most 2.5 of them
    ]


def test_the_interval_can_be_told(home: Path) -> None:
    assert land(home, QUERY, options="--interval 4").samples[0]["interval_ms"] == 4000


@pytest.mark.parametrize(
    ("header", "row"),
    [
        # another driver's set, in another order, a field twice
        ("uuid, power.draw [W], utilization.gpu [%], timestamp, uuid", f"{UUID}, 70.25 W, 45 %, 2026/07/14 09:00:00.000, {UUID}"),
        # nounits
        ("timestamp, gpu_uuid, utilization.gpu [%], power.draw [W]", f"2026/07/14 09:00:00.000, {UUID}, 45, 70.25"),
        # as a spreadsheet saves it
        ("timestamp;uuid;utilization.gpu [%];power.draw [W]", f'"2026/07/14 09:00:00.000";"{UUID}";"45 %";"70.25 W"'),
        # power.draw says nothing, power.draw.average does
        (
            "timestamp, uuid, utilization.gpu [%], power.draw [W], power.draw.average [W], power.draw.instant [W]",
            f"2026/07/14 09:00:00.000, {UUID}, 45 %, [N/A], 70.25 W, 99.00 W",
        ),
    ],
)
def test_columns_go_by_their_names(home: Path, header: str, row: str) -> None:
    (sample,) = land(home, f"{header}\n{row}\n").samples
    assert (sample["gpu_utilization_ratio"], sample["power_watts"]) == (0.45, 70.25)
    assert sample["interval_start_at"] == datetime(2026, 7, 14, 8, 59)


def test_rows_without_a_header_need_their_fields(home: Path) -> None:
    rows = f"2026/07/14 09:00:00.000, {UUID}, 45, 100\n2026/07/14 09:00:01.000, {UUID}, 46, 100\n"
    refused = land(home, rows)
    assert refused.code == 2
    assert "--fields" in refused.said
    landed = land(home, rows, options="--fields timestamp,uuid,utilization.gpu,memory.used")
    assert [row["gpu_utilization_ratio"] for row in landed.samples] == [0.45, 0.46]
    assert landed.samples[0]["memory_used_bytes"] == 100 << 20


def test_a_header_that_comes_again_begins_no_row(home: Path) -> None:
    """A loop in a shell prints it each time."""
    header, *rows = QUERY.splitlines()
    landed = land(home, "\n".join(line for row in rows for line in (header, row)))
    assert landed.code == 0
    assert len(landed.samples) == 3


def test_local_times_are_read_in_their_zone_and_repeated_hours_are_left_out(home: Path) -> None:
    log = "\n".join(
        [
            "timestamp, uuid, utilization.gpu [%]",
            f"2026/10/25 01:59:59.000, {UUID}, 1 %",
            f"2026/10/25 02:30:00.000, {UUID}, 2 %",
            f"2026/10/25 03:00:00.000, {UUID}, 3 %",
        ]
    )
    landed = land(home, log, options="--time-zone Europe/Berlin --interval 60")
    assert landed.code == 4
    assert [(row["reason"], row["line"]) for row in landed.quarantine] == [("ambiguous_local_time", 3)]
    assert [row["interval_start_at"] for row in landed.samples] == [
        datetime(2026, 10, 24, 23, 58, 59),
        datetime(2026, 10, 25, 1, 57, 30),
    ]


def test_a_note_tells_that_times_without_zone_were_read_as_utc(home: Path) -> None:
    assert "--time-zone" in land(home, QUERY).said


def test_clock_event_reasons_are_nvmls_bit_mask_under_both_names(home: Path) -> None:
    log = (
        f"timestamp, uuid, clocks_throttle_reasons.active\n2026/07/14 09:00:00.000, {UUID}, 0x0000000000000044\n"
        f"timestamp, uuid, clocks_event_reasons.sw_power_cap, clocks_event_reasons.hw_slowdown\n"
        f"2026/07/14 09:00:01.000, {UUID}, Active, Not Active\n2026/07/14 09:00:02.000, {UUID}, [N/A], [N/A]\n"
    )
    landed = land(home, log)
    assert [row["clock_event_reasons"] for row in landed.samples] == [0x44, 0x4, None]
    assert json.loads(landed.samples[2]["missing"]) == {"clock_event_reasons": "not_supported"}


def test_a_lost_gpu_becomes_a_record_and_the_others_stay(home: Path) -> None:
    log = (
        "timestamp, index, uuid, name, utilization.gpu [%], power.draw [W]\n"
        f"2026/07/31 12:49:00.000, 0, {UUID}, Tesla T4, 90 %, 60 W\n"
        f"2026/07/31 12:49:00.003, 1, {OTHER_UUID}, Tesla T4, 80 %, 60 W\n"
        "2026/07/31 12:49:01.000, 0, [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost]\n"
        f"2026/07/31 12:49:01.003, 1, {OTHER_UUID}, Tesla T4, 80 %, 60 W\n"
        "2026/07/31 12:49:02.000, 0, [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost]\n"
        f"2026/07/31 12:49:03.000, 0, {UUID}, Tesla T4, 70 %, 60 W\n"
    )
    landed = land(home, log)
    assert landed.code == 0
    assert [(row["seen_at"].second, row["is_lost"]) for row in landed.inventory if row["gpu_uuid"] == UUID] == [
        (0, None),
        (1, True),
        (3, None),
    ]
    assert [row["gpu_utilization_ratio"] for row in landed.samples if row["gpu_uuid"] == UUID] == [0.9, 0.7]
    assert len([row for row in landed.samples if row["gpu_uuid"] == OTHER_UUID]) == 2


def test_a_message_that_a_gpu_cannot_be_reached_says_that_it_is_lost(home: Path) -> None:
    log = (
        "timestamp, pci.bus_id, uuid, name, utilization.gpu [%]\n"
        f"2026/07/31 12:49:00.000, 00000000:02:00.0, {UUID}, Tesla T4, 90 %\n"
        "Unable to determine the device handle for GPU0000:02:00.0: GPU is lost.  Reboot the system to recover this GPU\n"
    )
    landed = land(home, log)
    assert landed.code == 4
    assert landed.inventory[-1]["is_lost"]
    assert landed.inventory[-1]["gpu_uuid"] == UUID
    assert "nvidia-smi failed here" in landed.quarantine[0]["detail"]


def test_a_log_that_names_no_uuid_finds_it_in_a_listing_of_the_same_call(home: Path) -> None:
    log = "timestamp, index, utilization.gpu [%]\n2026/07/14 09:00:00.000, 1, 45 %\n"
    listing = f"GPU 0: Tesla T4 (UUID: {OTHER_UUID})\nGPU 1: Tesla T4 (UUID: {UUID})\n"
    landed = land(home, log, listing, options="--at 2026-07-14T09:00:00Z --at 2026-07-14T08:00:00Z")
    assert landed.samples[0]["gpu_uuid"] == UUID
    assert {row["gpu_uuid"] for row in landed.inventory} == {UUID, OTHER_UUID}


def test_a_gpu_without_uuid_is_known_by_its_place(home: Path) -> None:
    log = "timestamp, pci.bus_id, index, utilization.gpu [%]\n2026/07/14 09:00:00.000, 0000:3b:00.0, 1, 45 %\n"
    landed = land(home, log)
    assert landed.samples[0]["gpu_uuid"] == "node7/00000000:3B:00.0"
    assert "known by place only" in landed.said


def test_rows_that_name_no_gpu_take_turns_as_told(home: Path) -> None:
    log = (
        "timestamp, utilization.gpu [%]\n2026/07/14 09:00:00.000, 10 %\n2026/07/14 09:00:00.003, 20 %\n"
        "2026/07/14 09:00:01.000, 11 %\n2026/07/14 09:00:01.003, 21 %\n"
    )
    refused = land(home, log)
    assert refused.code == 2
    assert "--gpu" in refused.said
    landed = land(home, log, options="--gpu 0,1")
    by_gpu = {gpu: [row["gpu_utilization_ratio"] for row in landed.samples if row["gpu_index"] == gpu] for gpu in (0, 1)}
    assert by_gpu == {0: [0.1, 0.11], 1: [0.2, 0.21]}


def test_the_node_is_told_or_stands_in_the_row(home: Path) -> None:
    assert "--node" in land(home, QUERY, node=None).said
    log = f"timestamp, uuid, utilization.gpu [%], hostname\n2026/07/14 09:00:00.000, {UUID}, 45 %, gpu-17\n"
    assert land(home, log, node=None).samples[0]["node"] == "gpu-17"


def test_a_split_card_gets_no_record_that_calls_it_whole(home: Path) -> None:
    """Its inventory would undo the layout that -L or another source told."""
    log = (
        "timestamp, uuid, name, mig.mode.current, utilization.gpu [%], memory.used [MiB]\n"
        f"2026/07/14 09:00:00.000, {UUID}, NVIDIA H100 80GB HBM3, Enabled, [N/A], 11125 MiB\n"
    )
    landed = land(home, log)
    assert landed.inventory == []
    assert landed.samples[0]["gpu_utilization_ratio"] is None
    assert "nvidia-smi -L" in landed.said


def test_processes_land_without_their_names(home: Path) -> None:
    log = (
        "timestamp, gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n"
        f"2026/07/14 09:00:44.742, {UUID}, 21180, /opt/tools/memhog, 2296 MiB\n"
        f"2026/07/14 09:00:44.742, {UUID}, 21181, python train.py --token hf_secret, --lr 1, 1272 MiB\n"
        f"2026/07/14 09:00:44.742, {UUID}, 21182, C:\\Windows\\explorer.exe, [N/A]\n"
        f"2026/07/14 09:00:44.742, {UUID}, x, memhog --password secret, 1 MiB\n"
    )
    landed = land(home, log)
    assert [(row["pid"], row["memory_used_bytes"]) for row in landed.processes] == [
        (21180, 2296 << 20),
        (21181, 1272 << 20),
        (21182, None),
    ]
    assert landed.code == 4
    assert "secret" not in landed.said + str(landed.quarantine) + str(landed.tables)


def test_a_process_listed_for_compute_and_graphics_is_one(home: Path) -> None:
    log = (
        "timestamp, gpu_uuid, pid, used_gpu_memory [MiB]\n"
        f"2026/07/14 09:00:44.742, {UUID}, 7, [N/A]\n2026/07/14 09:00:44.742, {UUID}, 7, 12 MiB\n"
    )
    assert [(row["pid"], row["memory_used_bytes"]) for row in land(home, log).processes] == [(7, 12 << 20)]


def test_of_accounted_processes_only_those_that_still_run_are_seen(home: Path) -> None:
    log = (
        "timestamp, gpu_uuid, pid, gpu_utilization [%], mem_utilization [%], max_memory_usage [MiB], time [ms]\n"
        f"2026/07/03 08:33:53.671, {UUID}, 18679, 99 %, 13 %, 0 MiB, 153712 ms\n"
        f"2026/07/03 08:33:53.671, {UUID}, 20037, 2 %, 0 %, 538 MiB, 0 ms\n"
    )
    landed = land(home, log)
    assert [(row["pid"], row["memory_used_bytes"], row["sm_utilization_ratio"]) for row in landed.processes] == [
        (20037, None, None)
    ]
    assert "had ended" in landed.said


def test_unknown_fields_are_told_once(home: Path) -> None:
    log = f"timestamp, uuid, utilization.gpu [%], utilization.encoder [%]\n2026/07/14 09:00:00.000, {UUID}, 9 %, 60 %\n"
    assert land(home, log).said.count("utilization.encoder") == 1


def test_columns_that_are_swapped_are_quarantined_and_the_rest_lands(home: Path) -> None:
    log = (
        "timestamp, uuid, utilization.gpu [%], memory.used [MiB]\n"
        f"2026/07/14 09:00:00.000, 45 %, {UUID}, 1 MiB\n"
        f"2026/07/14 09:00:01.000, {UUID}, 1024 MiB, 45 %\n"
        f"2026/07/14 09:00:02.000, {UUID}, 45 %, 1 MiB\n"
        f"2026/07/14 09:00:03.000, {UUID}, 45 %\n"
        f"yesterday, {UUID}, 45 %, 1 MiB\n"
    )
    landed = land(home, log)
    assert landed.code == 4
    assert [row["line"] for row in landed.quarantine] == [2, 3, 5, 6]
    assert len(landed.samples) == 1


def test_the_same_reading_twice_is_one(home: Path) -> None:
    landed = land(home, QUERY + QUERY.splitlines()[3])
    assert [row["reason"] for row in landed.quarantine] == ["duplicate"]
    assert len(landed.samples) == 3


def test_a_loop_without_times_is_placed_by_at_and_interval(home: Path) -> None:
    log = f"uuid, utilization.gpu [%]\n{UUID}, 1 %\n{OTHER_UUID}, 2 %\n{UUID}, 3 %\n{OTHER_UUID}, 4 %\n"
    assert "--at" in land(home, log).said
    assert "--interval" in land(home, log, options="--at 2026-07-14T09:00:00Z").said
    landed = land(home, log, options="--at 2026-07-14T09:00:00Z --interval 5")
    assert [(row["interval_start_at"].second, row["gpu_utilization_ratio"]) for row in landed.samples] == [
        (55, 0.01),
        (55, 0.02),
        (0, 0.03),
        (0, 0.04),
    ]


def test_landing_a_log_again_changes_nothing(home: Path) -> None:
    land(home, QUERY)
    before = {path: path.read_bytes() for path in (home / "raw").rglob("*.parquet")}
    assert "already landed" in land(home, QUERY).said
    assert {path: path.read_bytes() for path in (home / "raw").rglob("*.parquet")} == before


def test_a_warning_beside_the_rows_is_a_note(home: Path) -> None:
    landed = land(home, QUERY + "WARNING: infoROM is corrupted at gpu 0000:3B:00.0\n")
    assert landed.code == 0
    assert "note: output0.log: WARNING: infoROM is corrupted" in landed.said
