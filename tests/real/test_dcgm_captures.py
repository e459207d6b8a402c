"""dcgm-exporter scrapes of other people's machines, each with a figure that was read from its text by hand."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

from collectors.dcgm.collect import dcgm

pytestmark = pytest.mark.real

AT = "2023-01-10T12:00:00Z"
MIB = 1 << 20
A100, OTHER_A100 = "GPU-7099682b-a20d-2bcc-74ab-b9060454d81e", "GPU-473571f2-fb37-ef7e-50fe-9885b74a23cd"
BUSY_T4, QUIET_T4 = "GPU-7a2e92f2-be71-d37e-a744-541600ffc722", "GPU-5f587dd4-6505-0873-c6db-8324dbfe5ba9"

#: capture → slot → (column → value): what the lines of that slot say, in our units
GOLDEN: dict[str, dict[tuple[str, str | None], dict[str, Any]]] = {
    "a100-idle-mig-disabled.1": {
        (A100, None): {
            "gpu_utilization_ratio": 0.0,
            "graphics_engine_active_ratio": 0.0,
            "memory_total_bytes": 40384 * MIB,
            "power_watts": 45.999,
            "pcie_tx_bytes": 16503 * 60,
        }
    },
    "a100-idle-mig-disabled.2": {(A100, None): {"memory_used_bytes": 0, "temperature_celsius": 29.0, "sm_clock_mhz": 210.0}},
    "a100-mig-enabled-no-instances": {
        (A100, None): {
            "graphics_engine_active_ratio": 0.000033,
            "gpu_utilization_ratio": None,
            "memory_used_bytes": None,
            "power_watts": 75.96,
        }
    },
    "mig-1g5gb-active": {
        (A100, f"{A100}/gi9"): {
            "graphics_engine_active_ratio": 0.999892,
            "gpu_utilization_ratio": None,
            "memory_used_bytes": 4384 * MIB,
            "memory_total_bytes": 4864 * MIB,
            "power_watts": 115.294,
        }
    },
    "mig-1g5gb-idle-allocated": {
        (A100, f"{A100}/gi8"): {
            "graphics_engine_active_ratio": 0.0,
            "memory_used_bytes": 6 * MIB,
            "memory_total_bytes": 4863 * MIB,
        }
    },
    "mig-2x1g5gb-1x2g10gb": {
        (A100, f"{A100}/gi5"): {
            "graphics_engine_active_ratio": 0.000036,
            "memory_total_bytes": 9855 * MIB,
            "power_watts": 116.163,
        },
        (A100, f"{A100}/gi7"): {"graphics_engine_active_ratio": 0.000062, "memory_used_bytes": 98 * MIB, "power_watts": 116.043},
        (A100, f"{A100}/gi9"): {"graphics_engine_active_ratio": 0.999917, "dram_active_ratio": 0.647986},
    },
    "mig-4-active": {
        (OTHER_A100, f"{OTHER_A100}/gi5"): {"graphics_engine_active_ratio": 0.0, "power_watts": 112.252},
        (OTHER_A100, f"{OTHER_A100}/gi7"): {"graphics_engine_active_ratio": 0.0, "power_watts": 112.252},
        (OTHER_A100, f"{OTHER_A100}/gi8"): {"graphics_engine_active_ratio": 0.408493, "power_watts": 106.463},
        (OTHER_A100, f"{OTHER_A100}/gi9"): {"graphics_engine_active_ratio": 0.0, "power_watts": 106.463},
    },
    "t4-pod-labels-1-workload": {
        (BUSY_T4, None): {"graphics_engine_active_ratio": 0.000039, "memory_used_bytes": 128 * MIB, "pcie_rx_bytes": 420785 * 60},
        (QUIET_T4, None): {"graphics_engine_active_ratio": 0.0, "memory_used_bytes": 5 * MIB, "gpu_index": 1},
    },
}


def land(home: Path, path: Path, table: str = "gpu_samples", *options: str) -> tuple[pl.DataFrame, str]:
    result = CliRunner().invoke(dcgm, [str(path), "--at", AT, "--cluster", "real", *options])
    assert result.exit_code == 0, result.output
    return pl.read_parquet(home / f"raw/dcgm/{table}/**/*.parquet").sort("gpu_uuid", "slot_uuid"), result.output


def test_every_scrape_of_the_folder_has_its_figures_here(real_data: Path) -> None:
    assert {path.stem for path in (real_data / "dcgm-exporter-runai").glob("*.prom")} == set(GOLDEN)


@pytest.mark.parametrize("capture", sorted(GOLDEN))
def test_a_capture_lands_as_its_text_says(real_data: Path, home: Path, capture: str) -> None:
    rows, output = land(home, real_data / "dcgm-exporter-runai" / f"{capture}.prom")
    assert {(row["gpu_uuid"], row["slot_uuid"]) for row in rows.to_dicts()} == set(GOLDEN[capture])
    for row in rows.to_dicts():
        expected = GOLDEN[capture][row["gpu_uuid"], row["slot_uuid"]]
        assert {name: row[name] for name in expected} == expected
        assert (row["interval_start_at"], row["interval_ms"]) == (datetime(2023, 1, 10, 11, 59), 60_000)
        assert (row["energy_joules"], row["xid"], row["missing"]) == (None, 0, None)
    assert "looks like an exporter's pod" in output


def test_the_slices_of_a_card_split_in_four_are_five_of_its_seven(real_data: Path, home: Path) -> None:
    rows, _ = land(home, real_data / "dcgm-exporter-runai/mig-4-active.prom", "gpu_inventory")
    assert rows["compute_slices"].to_list() == [2, 1, 1, 1]
    assert rows["card_slices"].to_list() == [7, 7, 7, 7]
    assert rows["mig_profile"].to_list() == ["2g.10gb", "1g.5gb", "1g.5gb", "1g.5gb"]
    assert set(rows["gpu_model"]) == {"NVIDIA A100-SXM4-40GB"}


def test_a_reservation_pod_known_by_name_is_landed_as_named_for_the_build_to_resolve(real_data: Path, home: Path) -> None:
    """It holds the card for a pod that uses half of it, which only the pods' own records tell."""
    evidence, output = land(home, real_data / "dcgm-exporter-runai/t4-pod-labels-1-workload.prom", "run_gpus", "--node", "worker")
    pod = "runai-reservation/runai-reservation-gpu-qa-mig-worker-gpu-1-kvltw"
    assert evidence.select("job_id", "gpu_uuid", "gpu_count", "share_ratio", "ended_at", "assignment_method").rows() == [
        (pod, "GPU-7a2e92f2-be71-d37e-a744-541600ffc722", 1.0, None, None, "exporter_label")
    ]
    assert "looks like" not in output


def test_two_devices_spliced_into_one_scrape_are_two_devices(real_data: Path, home: Path) -> None:
    """Both are `gpu="0"`; the second's FB_RESERVED is a copy of its FB_TOTAL, as the file's own note says."""
    path = real_data / "dcgm-exporter-datadog-t4/metrics.prom"
    assert not path.read_bytes().endswith(b"\n")
    samples, output = land(home, path)
    assert samples.select(
        "gpu_uuid", "node", "gpu_index", "memory_total_bytes", "gpu_utilization_ratio", "clock_event_reasons"
    ).rows() == [
        ("GPU-20c56d28-0da5-6d26-a36a-e7af1ce2586e", "424773df46e0", 0, 15109 * MIB, 0.0, None),
        ("GPU-9ef1b6d0-3643-5dd7-b823-c0ec20dcf2d5", "551bdf382151", 0, 15109 * MIB, None, 1),
    ]
    assert "no activity for 1 of 2 slots" in output
    inventory = pl.read_parquet(home / "raw/dcgm/gpu_inventory/**/*.parquet").sort("gpu_uuid")
    assert inventory.select("driver_version", "serial", "power_limit_watts").rows() == [
        ("460.106.00", None, None),
        ("470.182.03", "1565220008176", 70.0),
    ]


def test_upstream_notes_that_are_no_exposition_text_lose_their_titles_and_rules_only(real_data: Path, home: Path) -> None:
    """The note holds a title line, two scrapes and a rule of dashes; both scrapes say the same but for one value."""
    path = real_data / "dcgm-exporter-runai/raw/a100-idle-mig-disabled.ini"
    result = CliRunner().invoke(dcgm, [str(path), "--at", AT, "--cluster", "real"])
    assert result.exit_code == 4, result.output
    samples = pl.read_parquet(home / "raw/dcgm/gpu_samples/**/*.parquet")
    assert samples.select("gpu_uuid", "power_watts").rows() == [(A100, 45.999)]
