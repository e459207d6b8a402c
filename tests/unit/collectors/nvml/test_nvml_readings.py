"""What the real command lands of GPUs that answer: whole cards, MIG, GPM, XIDs, processes, what a card does not support."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.unit.collectors.nvml.harness import Host, Row, assert_tiled, gap_ms, is_gap, milliseconds, series


def missing(row: Row) -> dict[str, str]:
    return dict(json.loads(row["missing"] or "{}"))


def once(host: Host) -> list[Row]:
    result = host.run("--once", "--interval", "0.6")
    assert result.returncode == 0, result.stderr
    return host.rows("gpu_samples")


def test_a_card_with_gpm_lands_every_reading_over_exactly_the_interval(host: Host) -> None:
    host.set("gpus 1", "gpm 1", "util 0 80")
    (row,) = once(host)
    assert 600 <= row["interval_ms"] < 1_200
    seconds = row["interval_ms"] / 1000
    assert (row["sm_active_ratio"], row["graphics_engine_active_ratio"]) == (0.4, 0.8)
    assert (row["tensor_active_ratio"], row["dram_active_ratio"]) == (0.2, 0.1)
    assert row["gpu_utilization_ratio"] == pytest.approx(0.8, abs=0.06)
    assert row["memory_used_bytes"] == 4 << 30, "allocated, without the reserved GiB"
    assert row["memory_total_bytes"] == 80 << 30
    assert 300 <= row["power_watts"] < 301
    assert row["energy_joules"] == pytest.approx(300 * seconds, rel=0.1)
    assert (row["temperature_celsius"], row["sm_clock_mhz"], row["sm_clock_max_mhz"]) == (55, 1755, 1980)
    assert (row["sm_clock_application_mhz"], row["clock_event_reasons"], row["xid"]) == (1900, 4, 0)
    assert row["pcie_rx_bytes"] == pytest.approx(200 * 2**20 * seconds, abs=2)
    assert row["pcie_tx_bytes"] == pytest.approx(100 * 2**20 * seconds, abs=2)
    assert row["nvlink_rx_bytes"] == pytest.approx(50 * 2**20 * seconds, abs=2)
    assert (row["pci_bus_id"], row["gpu_index"], row["source"]) == ("00000000:10:00.0", 0, "nvml")
    assert row["missing"] is None


def test_inventory_names_the_card_and_the_host_has_its_own_row(host: Host) -> None:
    host.set("gpus 1")
    once(host)
    (card,) = host.rows("gpu_inventory")
    assert (card["gpu_model"], card["serial"], card["driver_version"]) == ("NVIDIA H100 80GB HBM3", "1650000000", "570.00.fake")
    assert (card["power_limit_watts"], card["sm_clock_max_mhz"], card["is_lost"]) == (700, 1980, False)
    (node,) = host.rows("node_samples")
    assert 0 <= node["cpu_utilization_ratio"] <= 1
    assert node["memory_used_bytes"] > 0
    assert node["interval_ms"] == host.rows("gpu_samples")[0]["interval_ms"]


def test_without_gpm_bytes_come_from_counters_and_activity_from_utilisation(host: Host) -> None:
    host.set("gpus 1")
    (row,) = once(host)
    seconds = row["interval_ms"] / 1000
    assert row["pcie_tx_bytes"] == pytest.approx(2_000_000 * seconds, rel=0.1)
    assert row["nvlink_rx_bytes"] == pytest.approx(2_048_000 * seconds, rel=0.1), "summed over all links"
    assert row["gpu_utilization_ratio"] is not None
    assert missing(row)["sm_active_ratio"] == "not_supported"


@pytest.mark.parametrize("lines", [["samples 0"], ["unit 10000"]])
def test_without_usable_samples_the_reading_of_the_last_second_stands(host: Host, lines: list[str]) -> None:
    """Some drivers keep utilisation samples in units of 0.0001 %: taken as percent they would be out of range."""
    host.set("gpus 1", "util 0 70", *lines)
    (row,) = once(host)
    assert row["gpu_utilization_ratio"] == 0.7


def test_unsupported_and_forbidden_fields_are_null_with_their_reason_never_0(host: Host) -> None:
    host.set(
        "gpus 1",
        "error 0 3 nvmlDeviceGetPowerUsage",
        "error 0 3 nvmlDeviceGetTotalEnergyConsumption",
        "error 0 4 nvmlDeviceGetCurrentClocksEventReasons",
        "error 0 999 nvmlDeviceGetTemperature",
        "error 0 4 nvmlDeviceGetSamples",
        "error 0 4 nvmlDeviceGetUtilizationRates",
        "error 0 3 nvmlDeviceRegisterEvents",
        "error 0 3 nvmlDeviceGetFieldValues",
        "error 0 25 nvmlDeviceGetMemoryInfo_v2",
    )
    (row,) = once(host)
    reasons = missing(row)
    expected = {
        "power_watts": "not_supported",
        "energy_joules": "not_supported",
        "clock_event_reasons": "not_permitted",
        "temperature_celsius": "gap",
        "gpu_utilization_ratio": "not_permitted",
        "xid": "not_supported",
        "pcie_rx_bytes": "not_supported",
        "nvlink_tx_bytes": "not_supported",
    }
    assert {name: reasons.get(name) for name in expected} == expected
    assert all(row[name] is None for name in expected)
    assert row["memory_used_bytes"] == 5 << 30, "the first version of the call, reserved bytes included"


def test_mig_instances_have_their_own_activity_and_memory_and_repeat_the_cards_power(host: Host) -> None:
    host.set("gpus 1", "gpm 1", "mig 0 1:10 3:40")
    small, large = sorted(once(host), key=lambda row: row["memory_total_bytes"])
    assert (small["memory_total_bytes"], large["memory_total_bytes"]) == (10 << 30, 40 << 30)
    for row in (small, large):
        assert row["sm_active_ratio"] == 0.4
        assert row["power_watts"] == small["power_watts"]
        assert row["energy_joules"] == small["energy_joules"]
        assert missing(row)["gpu_utilization_ratio"] == "not_supported"
        assert missing(row)["pcie_rx_bytes"] == "not_supported"
    layout = {row["mig_profile"]: (row["compute_slices"], row["card_slices"]) for row in host.rows("gpu_inventory")}
    assert layout == {"1g.10gb": (1, 7), "3g.40gb": (3, 7)}


def test_mig_without_gpm_has_no_utilisation_and_says_why(host: Host) -> None:
    host.set("gpus 1", "mig 0 2:20", "slices 4")
    (row,) = once(host)
    assert is_gap(row)
    assert {missing(row)[name] for name in ("sm_active_ratio", "graphics_engine_active_ratio", "gpu_utilization_ratio")} == {
        "not_supported"
    }
    assert row["power_watts"] is not None
    assert host.rows("gpu_inventory")[0]["card_slices"] == 4


def test_a_layout_that_changes_while_the_agent_runs_gives_new_inventory_and_no_hole(host: Host) -> None:
    host.set("gpus 1", "gpm 1", "mig 0 1:10 3:40")
    host.start()
    host.wait_until(lambda text: text.count("gpu_samples") > 6)
    host.set("gpus 1", "gpm 1", "mig 0 2:20 3:40")
    host.wait_until(lambda text: "2g.20gb" in text and text.count("MIG-00000000-0002") > 4)
    host.set("gpus 1", "gpm 1")
    time.sleep(2)
    assert host.stop() == 0
    layouts: dict[object, set[str | None]] = {}
    for record in host.rows("gpu_inventory"):
        layouts.setdefault(record["seen_at"], set()).add(record["mig_profile"])
    assert [sorted(map(str, layouts[at])) for at in sorted(layouts, key=str)] == [
        ["1g.10gb", "3g.40gb"],
        ["2g.20gb", "3g.40gb"],
        ["None"],
    ]
    slots: dict[str | None, list[Row]] = {}
    for row in sorted(host.rows("gpu_samples"), key=lambda row: row["interval_start_at"]):
        slots.setdefault(row["slot_uuid"], []).append(row)
    assert len(slots) == 4
    for rows in slots.values():
        assert_tiled(rows)
        assert gap_ms(rows) <= 1_500
    # the instance that stayed is told through both layouts, and the card from where they end
    stayed = next(rows for uuid, rows in slots.items() if uuid and uuid.startswith("MIG-00000000-0003"))
    assert milliseconds(stayed[-1])[1] >= milliseconds(slots[None][0])[0]


def test_an_xid_lands_on_the_sample_in_which_it_occurred(host: Host) -> None:
    host.start()
    host.wait_until(lambda text: text.count("gpu_samples") > 4)
    at = round(time.time() * 1000)
    host.set("gpus 2", f"xid 1 {at} 31", f"xid 1 {at} 48")
    time.sleep(2)
    assert host.stop() == 0
    found = series(host.rows("gpu_samples"))
    marked = [row for row in found["1"] if row["xid"]]
    assert [row["xid"] for row in marked] == [48]
    start, end = milliseconds(marked[0])
    assert start - 500 <= at <= end + 500
    assert all(row["xid"] == 0 for row in found["0"])
    assert "GPU 1: XID 31" in host.log()
    assert "GPU 1: XID 48" in host.log()


def test_xid_79_lands_with_the_gap_of_the_gpu_that_it_took(host: Host) -> None:
    host.start()
    host.wait_until(lambda text: text.count("gpu_samples") > 4)
    host.set("gpus 2", f"xid 1 {round(time.time() * 1000)} 79", "error 1 15 *")
    host.wait_until(lambda text: '"is_lost":true' in text)
    assert host.stop() == 0
    found = series(host.rows("gpu_samples"))
    marked = [row for row in found["1"] if row["xid"] == 79]
    assert len(marked) == 1
    assert is_gap(marked[0])


def test_an_energy_counter_that_begins_again_costs_one_interval_and_no_nonsense(host: Host) -> None:
    host.start()
    host.wait_until(lambda text: text.count("gpu_samples") > 6)
    host.set("gpus 2", f"energy 0 {round(time.time() * 1000)}")
    time.sleep(2.5)
    assert host.stop() == 0
    rows = series(host.rows("gpu_samples"))["0"]
    known = [(row["energy_joules"], row["interval_ms"]) for row in rows if row["energy_joules"] is not None]
    assert len(known) >= len(rows) - 2
    assert all(0 <= joules <= 300 * length / 1000 * 1.5 for joules, length in known)


def test_processes_land_with_their_job_and_nothing_of_what_they_run(host: Host) -> None:
    """A site without cgroup tracking: the job's id is the one thing taken from the environment."""
    program = [sys.executable, "-c", "import time; time.sleep(60)", "--password=hunter2"]
    environment = {**os.environ, "SLURM_JOB_ID": "4711", "SECRET_TOKEN": "hunter2"}
    with subprocess.Popen(program, env=environment) as process:
        try:
            host.variables["GPU_NET_USER_KEY"] = "key"
            host.set("gpus 2", f"process 0 - {process.pid} 2000 33", "process 1 - 4194000 10 1")
            once(host)
        finally:
            process.kill()
    rows = {row["gpu_uuid"][-1]: row for row in host.rows("gpu_processes")}
    known, unknown = rows["0"], rows["1"]
    assert (known["pid"], known["memory_used_bytes"], known["sm_utilization_ratio"]) == (process.pid, 2000 << 20, 0.33)
    assert known["job_id"] == "4711"
    assert known["user"].startswith("user-")
    assert unknown["job_id"] is None
    assert not any(b"hunter2" in path.read_bytes() for path in host.home.rglob("*") if path.is_file())


def test_processes_of_a_mig_instance_name_it(host: Host) -> None:
    host.set("gpus 1", "gpm 1", "mig 0 1:10 3:40", "process 0 1 4194001 500 0")
    once(host)
    (row,) = host.rows("gpu_processes")
    assert row["slot_uuid"].startswith("MIG-00000000-0003")
    assert row["sm_utilization_ratio"] is None


def test_without_a_driver_once_fails_with_the_remedy_and_leaves_an_outcome(host: Host) -> None:
    host.set("gpus 1", "driver 9")
    result = host.run("--once")
    assert result.returncode == 1
    assert "modprobe nvidia" in result.stderr
    (record,) = host.rows("collection_runs")
    assert record["status"] == "failed"


def test_without_the_library_once_fails_with_the_remedy(host: Host, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    host.library = tmp_path / "empty"
    result = host.run("--once")
    assert result.returncode == 1
    assert "libnvidia-ml.so.1" in result.stderr


def test_a_host_whose_driver_lists_no_gpu_says_so(host: Host) -> None:
    host.set("gpus 0")
    result = host.run("--once")
    assert result.returncode == 1
    assert "lists no GPU" in result.stderr


def test_once_lands_a_lost_gpu_as_a_gap_beside_the_others(host: Host) -> None:
    host.set("gpus 2", "error 1 15 nvmlDeviceGetTemperature")
    found = series(once(host))
    assert not is_gap(found["0"][0])
    assert is_gap(found["1"][0])
    assert [row["is_lost"] for row in host.rows("gpu_inventory") if row["gpu_uuid"].endswith("1")] == [True]


def test_the_command_prints_its_outcome_as_json_and_wants_a_cluster(host: Host) -> None:
    result = host.run("--once", "--interval", "0.3", "--json")
    outcome = json.loads(result.stdout)
    assert (outcome["status"], outcome["rows"]["gpu_samples"]) == ("landed", 2)
    command = [sys.executable, "-m", "collectors", "nvml", "--once"]
    refused = subprocess.run(command, env=host.environment(), capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "--cluster" in refused.stderr


def test_compute_instances_are_parts_of_the_gpu_instance_that_is_handed_out(host: Host) -> None:
    """3g.40gb with two compute instances is one slot of three slices, under the UUID of the first, with both's processes."""
    host.set("gpus 1", "gpm 1", "mig 0 3:40 +3:40 1:10", "process 0 0 4194001 500 0", "process 0 1 4194002 700 0")
    once(host)
    inventory = [row for row in host.rows("gpu_inventory") if row["slot_uuid"]]
    assert {(row["mig_profile"].removeprefix("1c."), row["compute_slices"]) for row in inventory} == {
        ("1g.10gb", 1),
        ("3g.40gb", 3),
    }
    # the second compute instance is known by its own UUID, in the same GPU instance
    assert len({row["slot_uuid"] for row in inventory}) == 3
    assert len({row["gpu_instance_id"] for row in inventory}) == 2
    assert len({row["slot_uuid"] for row in host.rows("gpu_samples")}) == 2
    assert {row["pid"]: row["slot_uuid"][-1] for row in host.rows("gpu_processes")} == {4194001: "0", 4194002: "0"}
