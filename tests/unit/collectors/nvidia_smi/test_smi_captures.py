"""Captures nobody here wrote; their figures read from their own text."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.unit.collectors.nvidia_smi.outputs import land

SECTIONS = "nvidia-smi-captures/sections"
WHOLE = ["h100", "h200", "l40s", "rtx2080s-windows"]
SPLIT = {"h100-mig": [3, 2, 1, 1], "h200-mig": [3, 2, 1, 1]}


@pytest.mark.parametrize("load", ["idle", "load"])
@pytest.mark.parametrize("card", [*WHOLE, *SPLIT])
def test_a_query_lands_what_its_row_says(home: Path, real_data: Path, card: str, load: str) -> None:
    text = (real_data / SECTIONS / f"{card}.{load}.query-gpu.csv").read_text()
    header, row = (re.split(r",\s*", line) for line in text.strip().splitlines())
    said = dict(zip(header, row, strict=True))
    (sample,) = land(home, text).samples
    assert sample["memory_used_bytes"] == int(said["memory.used [MiB]"].removesuffix(" MiB")) << 20
    assert sample["power_watts"] == float(said["power.draw [W]"].removesuffix(" W"))
    assert sample["temperature_celsius"] == float(said["temperature.gpu"])
    assert sample["sm_clock_mhz"] == float(said["clocks.current.sm [MHz]"].removesuffix(" MHz"))
    assert sample["clock_event_reasons"] == int(said["clocks_event_reasons.active"], 16)
    if card in SPLIT:
        assert said["utilization.gpu [%]"] == "[N/A]"
        assert sample["gpu_utilization_ratio"] is None
        assert json.loads(sample["missing"])["gpu_utilization_ratio"] == "not_supported"
    else:
        assert sample["gpu_utilization_ratio"] == int(said["utilization.gpu [%]"].removesuffix(" %")) / 100


@pytest.mark.parametrize("card", [*WHOLE, *SPLIT])
def test_the_text_report_says_the_same_as_the_query(home: Path, real_data: Path, card: str) -> None:
    landed = land(home, (real_data / SECTIONS / f"{card}.load.q.txt").read_bytes())
    assert landed.code == 0
    slots = [row for row in landed.inventory if row["slot_uuid"]]
    assert sorted((row["compute_slices"] for row in slots), reverse=True) == SPLIT.get(card, [])
    assert len(landed.samples) == max(1, len(slots))
    assert landed.processes
    assert all(row["power_watts"] and row["sm_clock_mhz"] for row in landed.samples)


@pytest.mark.parametrize("card", SPLIT)
def test_the_slots_of_a_listing_make_up_the_card(home: Path, real_data: Path, card: str) -> None:
    listing = (real_data / SECTIONS / f"{card}.list-L.txt").read_text()
    landed = land(home, listing, options="--at 2026-07-14T09:00:00Z")
    slots = [row for row in landed.inventory if row["slot_uuid"]]
    # a part of a GPU instance holds its own slices of it: 1c and 2c make up one 3g
    held = [re.match(r"(?:(\d+)c\.)?", row["mig_profile"])[1] or row["compute_slices"] for row in slots]
    assert sum(map(int, held)) == sum(SPLIT[card])
    assert {row["compute_slices"] for row in slots} == set(SPLIT[card])
    assert {row["card_slices"] for row in slots} == {7}


@pytest.mark.parametrize("name", ["compute-apps.csv", "accounted-apps.csv", "dmon.txt", "pmon.txt", "list-L.txt"])
def test_every_other_section_lands_without_a_reject(home: Path, real_data: Path, name: str) -> None:
    for path in sorted((real_data / SECTIONS).glob(f"*{name}")):
        landed = land(home, path.read_bytes(), options="--at 2026-07-14T09:00:00Z --interval 1")
        assert (landed.code, landed.quarantine) == (0, []), path.name


def test_whole_captures_are_read_section_by_section(home: Path, real_data: Path) -> None:
    for path in sorted((real_data / "nvidia-smi-captures" / "raw").glob("*.txt")):
        landed = land(home, path.read_bytes())
        assert (landed.code, landed.quarantine) == (0, []), path.name


def test_documents_of_all_schemas_land(home: Path, real_data: Path) -> None:
    texts = [path.read_bytes() for path in sorted((real_data / "telegraf" / "nvidia-smi-xml").glob("*.xml"))]
    landed = land(home, *texts, options="--at 2023-01-01T00:00:00Z " * len(texts))
    assert landed.code == 0
    power = {row["gpu_uuid"][:12]: row["power_watts"] for row in landed.samples}
    assert power == {
        "GPU-513536b6": 67.03,  # v12, gpu_power_readings/power_draw
        "GPU-9a9a6c50": 25.58,  # v11, power_readings/power_draw
        "GPU-f9ba66fc": None,  # v10
        "GPU-19d6d965": 139.62,  # v13, average
        "GPU-12345678": 27.23,  # v12 as well, power_readings/power_draw
        "GPU-37037c3f": 8.81,  # v13, average
        "GPU-d37e67a5": 26.78,
    }
    assert [row["compute_slices"] for row in landed.inventory if row["slot_uuid"]] == [1, 1, 1, 1]


def test_amd_cards_land(home: Path, real_data: Path) -> None:
    texts = [path.read_bytes() for path in sorted((real_data / "telegraf" / "rocm-smi").glob("*.json"))]
    landed = land(home, *texts, options="--at 2023-01-01T00:00:00Z " * len(texts))
    assert landed.code == 0
    assert len(landed.samples) == len(landed.inventory) == 10
    assert {row["memory_total_bytes"] for row in landed.samples} == {34342961152}
    assert sorted(row["power_watts"] for row in landed.samples) == [35, 36, 37, 39, 39, 39, 39, 40, 43, 44]
