"""Every second of an agent's day, with faults: what a sick GPU, driver, disk or clock may cost, and what it may not."""

from __future__ import annotations

import signal
import time
from itertools import pairwise
from pathlib import Path

from bench.agent import tree
from tests.unit.collectors.nvml.harness import (
    INTERVAL_MS,
    Host,
    Row,
    assert_tiled,
    covered_ms,
    gap_ms,
    is_gap,
    milliseconds,
    series,
)


def inventory_of(host: Host, digit: str) -> list[bool]:
    """Whether each inventory record of a GPU says that it is lost, in time order."""
    rows = sorted(host.rows("gpu_inventory"), key=lambda row: row["seen_at"])
    return [row["is_lost"] for row in rows if row["gpu_uuid"].endswith(digit)]


def is_read_again(rows: list[Row]) -> bool:
    """Whether a good reading follows a gap. (On a busy machine the agent may end before its last tick is answered.)"""
    return any(is_gap(earlier) and not is_gap(later) for earlier, later in pairwise(rows))


def test_a_healthy_day_is_covered_on_the_grid_without_a_gap(host: Host) -> None:
    host.start()
    host.wait_until(lambda text: text.count("gpu_samples") >= 12)
    assert host.stop() == 0
    assert host.spooled() == []
    found = series(host.rows("gpu_samples"))
    assert set(found) == {"0", "1"}
    for rows in found.values():
        assert_tiled(rows)
        assert gap_ms(rows) <= INTERVAL_MS, "the last tick, where the agent is ended before its answer"
        assert len(rows) >= 5
        assert all(end % INTERVAL_MS == 0 for _, end in map(milliseconds, rows))
    assert_tiled(sorted(host.rows("node_samples"), key=lambda row: row["interval_start_at"]))


def test_a_lost_gpu_becomes_rows_with_a_reason_and_comes_back_while_the_other_stays(host: Host) -> None:
    host.start()
    host.wait_until(lambda text: text.count("gpu_samples") > 4)
    host.set("gpus 2", "error 1 15 *")
    host.wait_until(lambda text: '"is_lost":true' in text)
    time.sleep(2)
    host.set("gpus 2")
    host.wait_until(lambda text: '"is_lost":false' in text.partition('"is_lost":true')[2])
    assert host.stop() == 0
    found = series(host.rows("gpu_samples"))
    for rows in found.values():
        assert_tiled(rows)
    assert gap_ms(found["0"]) <= INTERVAL_MS
    assert gap_ms(found["1"]) >= 1_500
    assert not is_gap(found["1"][0])
    assert is_read_again(found["1"])
    assert inventory_of(host, "1") == [False, True, False]
    assert inventory_of(host, "0") == [False]
    assert "GPU 1: GPU is lost" in host.log()


def test_a_gpu_lost_before_the_agent_starts_is_known_from_the_agent_before(host: Host) -> None:
    host.start()
    host.wait_until(lambda text: text.count("gpu_samples") > 4)
    assert host.stop() == 0
    host.set("gpus 2", "error 1 15 *")
    host.start()
    host.wait_until(lambda text: '"is_lost":true' in text)
    assert host.stop() == 0
    found = series(host.rows("gpu_samples"))
    for rows in found.values():
        assert_tiled(rows)
    assert is_gap(found["1"][-1])
    assert inventory_of(host, "1")[-1] is True


def test_a_gpu_lost_before_anything_is_known_of_it_is_told_in_the_outcome(host: Host) -> None:
    host.set("gpus 2", "error 1 15 *")
    host.start("--json")
    host.wait_until(lambda text: text.count("gpu_samples") > 4)
    assert host.stop() == 0
    assert set(series(host.rows("gpu_samples"))) == {"0"}
    assert "GPU 1" in next(row["gaps"] for row in host.rows("collection_runs"))


def test_a_hanging_gpu_stops_neither_the_others_nor_the_agent_and_is_read_again(host: Host) -> None:
    host.start()
    host.wait_until(lambda text: text.count("gpu_samples") > 4)
    host.set("gpus 2", "hang 1 nvmlDeviceGetTemperature")
    host.wait_until(lambda text: "did not answer" in text)
    time.sleep(6)
    host.set("gpus 2")
    host.wait_until(lambda text: _is_good_after_gaps(text, "1"), 60)
    assert host.stop() == 0
    found = series(host.rows("gpu_samples"))
    for rows in found.values():
        assert_tiled(rows)
    assert is_read_again(found["1"])
    assert gap_ms(found["1"]) >= 3_000
    assert gap_ms(found["0"]) < gap_ms(found["1"]) / 2, "its reader is started anew, and that is all"
    assert "GPU 1: its reader did not answer for 0.5 s" in host.log()
    assert inventory_of(host, "1") == [False]


def test_a_gpu_that_hangs_while_it_is_opened_leaves_the_others_to_be_read(host: Host) -> None:
    host.set("gpus 2", "hang 0 nvmlDeviceGetUUID")
    result = host.run("--once", "--interval", "0.5")
    assert result.returncode == 0, result.stderr
    assert set(series(host.rows("gpu_samples"))) == {"1"}
    assert "GPU 0: its reader did not answer" in result.stderr


def test_a_library_that_crashes_at_one_gpu_leaves_the_others_to_be_read(host: Host) -> None:
    host.start()
    host.wait_until(lambda text: text.count("gpu_samples") > 4)
    host.set("gpus 2", "crash 0 nvmlDeviceGetTemperature")
    host.wait_until(lambda text: "ended without a word" in text)
    time.sleep(6)
    host.set("gpus 2")
    host.wait_until(lambda text: _is_good_after_gaps(text, "0"), 60)
    assert host.stop() == 0
    found = series(host.rows("gpu_samples"))
    for rows in found.values():
        assert_tiled(rows)
    assert gap_ms(found["0"]) >= 3_000
    assert gap_ms(found["1"]) < gap_ms(found["0"]) / 2
    assert is_read_again(found["0"])


def test_a_driver_unloaded_in_the_middle_is_a_gap_of_all_gpus_told_in_the_outcome(host: Host) -> None:
    host.start()
    host.wait_until(lambda text: text.count("gpu_samples") > 4)
    host.set("gpus 2", "driver 9")
    time.sleep(4)
    host.set("gpus 2")
    host.wait_until(lambda text: '"xid":0' in _after_hole(text, "Driver Not Loaded"))
    assert host.stop() == 0
    found = series(host.rows("gpu_samples"))
    for rows in found.values():
        assert_tiled(rows)
        assert gap_ms(rows) >= 2_000
        assert is_read_again(rows)
    assert inventory_of(host, "1") == [False], "a driver that is gone is no lost GPU"
    assert "Driver Not Loaded" in next(row["gaps"] for row in host.rows("collection_runs"))
    assert "modprobe nvidia" in host.log()


def test_an_agent_on_a_host_without_a_driver_waits_for_it(host: Host) -> None:
    host.set("gpus 1", "driver 9")
    host.start()
    host.wait_until(lambda text: text.count("node_samples") > 2)
    host.set("gpus 1")
    host.wait_until(lambda text: text.count("gpu_samples") > 2)
    assert host.stop() == 0
    assert covered_ms(series(host.rows("gpu_samples"))["0"]) >= INTERVAL_MS


def test_a_library_that_does_not_match_the_driver_any_more_is_loaded_anew(host: Host) -> None:
    host.start()
    host.wait_until(lambda text: text.count("gpu_samples") > 4)
    host.set("gpus 2", "driver 18")
    time.sleep(2)
    host.set("gpus 2")
    host.wait_until(lambda text: '"xid":0' in _after_hole(text, "mismatch"))
    assert host.stop() == 0
    assert "reload the module or reboot" in host.log()


def test_a_gpu_that_the_driver_does_not_list_any_more_is_lost(host: Host) -> None:
    host.start()
    host.wait_until(lambda text: text.count("gpu_samples") > 4)
    host.set("gpus 2", "driver 9")
    time.sleep(1.5)
    host.set("gpus 1")
    host.wait_until(lambda text: '"is_lost":true' in text)
    assert host.stop() == 0
    found = series(host.rows("gpu_samples"))
    assert_tiled(found["1"])
    assert inventory_of(host, "1")[-1] is True
    assert inventory_of(host, "0")[-1] is False
    assert "does not list it any more" in host.log()


def test_an_agent_killed_at_any_moment_loses_no_second(host: Host) -> None:
    host.start()
    host.wait_until(lambda text: text.count("gpu_samples") > 6)
    host.kill()
    before = [path.read_text() for path in host.spooled()]
    assert before
    time.sleep(2)
    host.start()
    host.wait_until(lambda text: _is_good_after_gaps(text, "0") and _is_good_after_gaps(text, "1"))
    assert host.stop() == 0
    assert host.spooled() == []
    for rows in series(host.rows("gpu_samples")).values():
        assert_tiled(rows)
        assert gap_ms(rows) >= 1_000
        assert not is_gap(rows[0])
        assert is_read_again(rows)


def test_a_killed_agent_leaves_no_reader_behind(host: Host) -> None:
    host.set("gpus 2", "hang 1 nvmlDeviceGetTemperature")
    host.start()
    host.wait_until(lambda text: text.count("gpu_samples") > 2)
    assert host.agent is not None
    readers = tree(host.agent.pid)[1:]
    assert readers
    host.kill()
    deadline = time.monotonic() + 20
    while any(_state(pid) not in (None, "Z") for pid in readers):
        assert time.monotonic() < deadline, "a reader outlives its agent"
        time.sleep(0.1)


def test_what_cannot_be_landed_stays_spooled_and_lands_at_the_next_start(host: Host) -> None:
    blocked = host.home.parent / "raw-is-a-file"
    blocked.mkdir()
    host.variables["GPU_NET_LANDING"] = str(blocked / "raw")
    host.start("--land-every", "1")
    host.wait_until(lambda text: text.count("gpu_samples") > 2)
    (blocked / "raw").rename(blocked / "moved")
    (blocked / "raw").write_text("no folder any more")
    time.sleep(3)
    assert host.stop() == 1
    kept = host.spooled()
    assert kept
    assert "cannot write" in host.log() or "not all has landed" in host.log()
    (blocked / "raw").unlink()
    (blocked / "moved").rename(blocked / "raw")
    host.start()
    time.sleep(4)
    assert host.stop() == 0
    assert host.spooled() == []


def test_a_second_agent_of_the_same_host_is_refused(host: Host) -> None:
    host.start()
    host.wait_until(lambda text: text.count("gpu_samples") > 2)
    result = host.run()
    assert result.returncode == 1
    assert "another agent" in result.stderr


def test_ctrl_c_lands_what_was_read(host: Host) -> None:
    host.start()
    host.wait_until(lambda text: text.count("gpu_samples") > 4)
    assert host.agent is not None
    host.agent.send_signal(signal.SIGINT)
    assert host.agent.wait(60) == 0
    host.agent = None
    assert host.rows("gpu_samples")


def _state(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return None


def _after_hole(text: str, why: str) -> str:
    """What a spool tells after a stretch without a driver has ended."""
    lines = text.splitlines()
    ends = [number for number, line in enumerate(lines) if line.startswith('["hole"') and why in line]
    return "\n".join(lines[ends[0] :]) if ends else ""


def _is_good_after_gaps(text: str, digit: str) -> bool:
    """Whether a spool's text shows a good reading of a GPU after a gap."""
    readings = [line for line in text.splitlines() if line.startswith('["gpu_samples"') and f'{digit}","pci_bus_id"' in line]
    return any('gpu_utilization_ratio":"gap' in line for line in readings) and '"gpu_utilization_ratio":0' in readings[-1]
