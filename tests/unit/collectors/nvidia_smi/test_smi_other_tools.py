"""dmon and pmon, rocm-smi and amd-smi."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

from tests.unit.collectors.nvidia_smi.outputs import UUID, land

DMON = """# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec   mclk   pclk
# Idx      W      C      C      %      %      %      %    MHz    MHz
    0    438     55     61     97      -      -      -   2619   1980
    1     41     25      -      -      -      -      -   2619    210
    0    440     55     60     99      -      -      -   2619   1980
    1     41     25      -      -      -      -      -   2619    210
"""
DMON_WITH_TIME = """#Date       Time        gpu     fb   bar1     sm    mem
#YYYYMMDD   HH:MM:SS    Idx     MB     MB      %      %
 20240104   13:54:35      0    239      3      6      1

 20240104   13:54:36      0     74     10      0      0
#Date       Time        gpu     fb   bar1     sm    mem
#YYYYMMDD   HH:MM:SS    Idx     MB     MB      %      %
 20240104   13:54:37      0     74     10    100      0
"""
PMON = """# gpu         pid   type     sm    mem    enc    dec    command
# Idx           #    C/G      %      %      %      %    name
    0      10291     C      -      -      -      -    memhog
    0      10309   C+G     99      7      -      -    NVIDIA Overlay.
    1          -     -      -      -      -      -    -
    0      10291     C     19      1      -      -    memhog
    0      10309   C+G     79      5      -      -    NVIDIA Overlay.
    1          -     -      -      -      -      -    -
"""
ROCM = {
    "card0": {
        "Unique ID": "0x79ccd55167a2124a",
        "Temperature (Sensor edge) (C)": "53.0",
        "Temperature (Sensor junction) (C)": "55.0",
        "sclk clock speed:": "(300Mhz)",
        "Max Graphics Package Power (W)": "290.0",
        "Average Graphics Package Power (W)": "36.0",
        "GPU use (%)": "12",
        "GPU memory use (%)": "0",
        "Serial Number": "N/A",
        "PCI Bus": "0000:83:00.0",
        "VRAM Total Memory (B)": "34342961152",
        "VRAM Total Used Memory (B)": "6750208",
        "Accumulated Energy (uJ)": "1000000.5",
        "Card Series": "AMD Instinct MI100",
    },
    "card1": {
        "Unique ID": "N/A",
        "Temperature (Sensor edge) (C)": "N/A",
        "Temperature (Sensor junction) (C)": "61.0",
        "Current Socket Graphics Package Power (W)": "N/A",
        "GPU use (%)": "N/A",
        "PCI Bus": "0000:A3:00.0",
        "Card series": "AMD Instinct MI250X",
    },
    "system": {"Driver version": "6.3.6"},
}
AMD = [
    {
        "gpu": 0,
        "usage": {"gfx_activity": {"value": 87, "unit": "%"}, "vcn_activity": ["N/A"]},
        "power": {"socket_power": {"value": 542, "unit": "W"}},
        "temperature": {"edge": "N/A", "hotspot": {"value": 71, "unit": "C"}},
        "clock": {"gfx_0": {"clk": {"value": 2100, "unit": "MHz"}}},
        "mem_usage": {"total_vram": {"value": 196592, "unit": "MB"}, "used_vram": {"value": 283, "unit": "MB"}},
        "energy": {"total_energy_consumption": {"value": 12.5, "unit": "J"}},
    }
]


def test_dmon_ticks_are_placed_by_their_distance(home: Path) -> None:
    assert "--at" in land(home, DMON).said
    landed = land(home, DMON, options="--at 2026-07-14T09:00:00Z --interval 1")
    first = [row for row in landed.samples if row["gpu_uuid"] == "node7/gpu0"]
    assert [(row["interval_start_at"], row["gpu_utilization_ratio"], row["power_watts"]) for row in first] == [
        (datetime(2026, 7, 14, 8, 59, 59), 0.97, 438),
        (datetime(2026, 7, 14, 9, 0, 0), 0.99, 440),
    ]
    assert first[0]["sm_clock_mhz"] == 1980
    assert first[0]["sm_active_ratio"] is None
    second = next(row for row in landed.samples if row["gpu_uuid"] == "node7/gpu1")
    assert json.loads(second["missing"]) == {"gpu_utilization_ratio": "not_supported"}


def test_dmon_with_times_is_read_in_its_zone(home: Path) -> None:
    landed = land(home, DMON_WITH_TIME, options="--time-zone Europe/Berlin --gpu 0")
    assert [(row["interval_start_at"], row["interval_ms"], row["memory_used_bytes"] >> 20) for row in landed.samples] == [
        (datetime(2024, 1, 4, 12, 54, 34), 1000, 239),
        (datetime(2024, 1, 4, 12, 54, 35), 1000, 74),
        (datetime(2024, 1, 4, 12, 54, 36), 1000, 74),
    ]


def test_a_time_of_day_goes_on_after_midnight(home: Path) -> None:
    text = "#Time        gpu     sm\n#HH:MM:SS    Idx      %\n 23:59:59      0      6\n 00:00:00      0      7\n"
    landed = land(home, text, options="--at 2026-07-14T23:59:59Z")
    assert [row["interval_start_at"] for row in landed.samples] == [
        datetime(2026, 7, 14, 23, 59, 58),
        datetime(2026, 7, 14, 23, 59, 59),
    ]


def test_a_process_without_a_sample_has_none_and_not_zero(home: Path) -> None:
    """Processes take turns: 99, then 19 and 79. They are told tick by tick, and added up nowhere."""
    listing = f"GPU 0: Tesla T4 (UUID: {UUID})\nGPU 1: Tesla T4 (UUID: GPU-22222222-2222-2222-2222-222222222222)\n"
    landed = land(home, PMON, listing, options="--at 2026-07-14T09:00:00Z --at 2026-07-14T09:00:00Z --interval 1")
    assert [(row["seen_at"].second, row["pid"], row["sm_utilization_ratio"]) for row in landed.processes] == [
        (0, 10291, None),
        (0, 10309, 0.99),
        (1, 10291, 0.19),
        (1, 10309, 0.79),
    ]
    assert {row["gpu_uuid"] for row in landed.processes} == {UUID}


def test_amd_cards_are_gpus(home: Path) -> None:
    landed = land(home, json.dumps(ROCM, indent=4), options="--at 2026-07-14T09:00:00Z")
    assert landed.code == 0
    by_place, by_id = sorted(landed.samples, key=lambda row: str(row["gpu_uuid"].startswith("0x")))
    assert by_id["gpu_uuid"] == "0x79ccd55167a2124a"
    assert (by_id["gpu_utilization_ratio"], by_id["power_watts"], by_id["temperature_celsius"]) == (0.12, 36, 53)
    assert (by_id["memory_used_bytes"], by_id["memory_total_bytes"], by_id["sm_clock_mhz"]) == (6750208, 34342961152, 300)
    assert (by_id["source"], by_id["pci_bus_id"], by_id["gpu_index"]) == ("rocm-smi", "00000000:83:00.0", 0)
    assert by_place["gpu_uuid"] == "node7/00000000:A3:00.0"
    assert by_place["temperature_celsius"] == 61
    assert by_place["gpu_utilization_ratio"] is None
    assert {(row["gpu_model"], row["driver_version"]) for row in landed.inventory} == {
        ("AMD Instinct MI100", "6.3.6"),
        ("AMD Instinct MI250X", "6.3.6"),
    }


def test_the_energy_counter_of_an_amd_card_becomes_joules_of_the_interval(home: Path) -> None:
    card = {"Unique ID": "0x1", "GPU use (%)": "1"}
    loop = "\n".join(json.dumps({"card0": {**card, "Accumulated Energy (uJ)": f"{value}"}}) for value in (1e6, 4e6, 2e6, 5e6))
    landed = land(home, loop, options="--at 2026-07-14T09:00:00Z --interval 10")
    assert [row["energy_joules"] for row in landed.samples] == [None, 3, None, 3]


def test_rocm_smi_csv_is_read_by_the_same_names(home: Path) -> None:
    text = (
        "device,GPU use (%),VRAM Total Memory (B),VRAM Total Used Memory (B),Card Series\n"
        "card0,28,309220868096,2726113280,AMD Instinct MI355X\ncard1,27,309220868096,3028103168,AMD Instinct MI355X\n"
    )
    landed = land(home, text, options="--at 2026-07-14T09:00:00Z")
    assert [(row["gpu_uuid"], row["gpu_utilization_ratio"], row["memory_used_bytes"]) for row in landed.samples] == [
        ("node7/gpu0", 0.28, 2726113280),
        ("node7/gpu1", 0.27, 3028103168),
    ]


def test_amd_smi_is_read_in_both_its_forms_with_ids_from_its_list(home: Path) -> None:
    listed = [{"gpu": 0, "bdf": "0000:05:00.0", "uuid": "c4ff74a5-0000-1000-80d2-7e20764e2714"}]
    static = {"gpu_data": [{"gpu": 0, "asic": {"market_name": "AMD Instinct MI300X"}, "bus": {"bdf": "0000:05:00.0"}}]}
    watched = [{**AMD[0], "timestamp": 1784019610}]
    when = "--at 2026-07-14T09:00:00Z"
    landed = land(
        home, json.dumps({"gpu_data": AMD}), json.dumps(listed), json.dumps(static), json.dumps(watched), options=f"{when} " * 4
    )
    assert landed.code == 0
    assert {row["gpu_uuid"] for row in landed.samples} == {"c4ff74a5-0000-1000-80d2-7e20764e2714"}
    first, second = landed.samples
    assert (first["gpu_utilization_ratio"], first["power_watts"], first["temperature_celsius"]) == (0.87, 542, 71)
    assert (first["memory_total_bytes"], first["sm_clock_mhz"]) == (196592 << 20, 2100)
    assert second["interval_start_at"] == datetime(2026, 7, 14, 9, 0)
    assert landed.inventory[-1]["gpu_model"] == "AMD Instinct MI300X"


def test_amd_smi_names_processes_and_their_memory(home: Path) -> None:
    told = [
        {
            "gpu": 0,
            "process_list": [
                {"process_info": {"name": "x", "pid": 42, "memory_usage": {"vram_mem": {"value": 4096, "unit": "B"}}}}
            ],
        }
    ]
    landed = land(home, json.dumps(told), options="--at 2026-07-14T09:00:00Z")
    assert [(row["pid"], row["memory_used_bytes"]) for row in landed.processes] == [(42, 4096)]


def test_amd_smi_monitor_csv_is_read(home: Path) -> None:
    landed = land(home, "timestamp,gpu,gfx_clk,gfx,vram_used,vram_free,vram_total\n1784019600,0,132,10,283,196309,196592\n")
    (sample,) = landed.samples
    assert (sample["gpu_utilization_ratio"], sample["memory_used_bytes"], sample["source"]) == (0.1, 283 << 20, "amd-smi")


def test_partitions_of_a_card_are_known_by_their_addresses(home: Path) -> None:
    """They repeat the card's id; as one card, all but the first would be a duplicate."""
    card = {"Unique ID": "0xabc", "GPU use (%)": "1"}
    text = json.dumps({f"card{n}": {**card, "PCI Bus": f"0000:0C:00.{n}"} for n in range(2)})
    landed = land(home, text, options="--at 2026-07-14T09:00:00Z")
    assert landed.code == 0
    assert [row["gpu_uuid"] for row in landed.samples] == ["node7/00000000:0C:00.0", "node7/00000000:0C:00.1"]
