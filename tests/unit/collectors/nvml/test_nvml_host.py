"""The host's own load from /proc and /sys, and whose a process is from its cgroup."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.nvml.grid import Tick
from collectors.nvml.host import HostReading, HostSeries, parse_cpu, parse_disks, parse_memory, read_host, read_links, to_row
from collectors.nvml.processes import identify, read_cgroup

NET_DEV = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 999 1 0 0 0 0 0 0 999 1 0 0 0 0 0 0
  eth0: 1000 10 0 0 0 0 0 0 2000 20 0 0 0 0 0 0
 bond0: 1000 10 0 0 0 0 0 0 2000 20 0 0 0 0 0 0
   ib0:500000000000 5 0 0 0 0 0 0 700 7 0 0 0 0 0 0
"""
UID = "0c2f6a1e-3b58-4d2f-9a5b-6f2f6b1e7a11"
#: systemd has no dash in a name
SYSTEMD = UID.replace("-", "_")
ID = "8d5e957f297893487bd98fa830fa6413" * 2


def make_sys(folder: Path, links: dict[str, str]) -> Path:
    for name, kind in links.items():
        (folder / "class" / "net" / name / "device").mkdir(parents=True)
        (folder / "class" / "net" / name / "type").write_text(f"{kind}\n")
    return folder


def test_processor_time_is_split_into_busy_waiting_and_all() -> None:
    assert parse_cpu("cpu  100 5 50 800 40 2 3 10 7 0\ncpu0 1 2 3\n") == (170, 40, 1010)


def test_memory_in_use_is_what_no_new_process_could_have() -> None:
    assert parse_memory("MemTotal:       1000 kB\nMemFree: 10 kB\nMemAvailable:    400 kB\n") == 600 * 1024
    assert parse_memory("MemTotal:       1000 kB\n") is None


def test_disks_are_counted_whole_and_once() -> None:
    lines = """ 259 0 nvme0n1 10 0 2000 5 20 0 4000 9 0 0 0
 259 1 nvme0n1p1 10 0 2000 5 20 0 4000 9 0 0 0
 253 0 dm-0 10 0 2000 5 20 0 4000 9 0 0 0
   7 0 loop0 10 0 2000 5 20 0 4000 9 0 0 0
"""
    assert parse_disks(lines, {"nvme0n1", "dm-0", "loop0"}) == {"nvme0n1": (2000 * 512, 4000 * 512)}


def test_bonds_do_not_count_what_their_links_count(tmp_path: Path) -> None:
    assert read_links(NET_DEV, make_sys(tmp_path, {"eth0": "1"})) == {"eth0": (1000, 2000)}


def test_infiniband_is_counted_at_its_ports_with_rdma_and_not_again_as_a_link(tmp_path: Path) -> None:
    sys = make_sys(tmp_path, {"eth0": "1", "ib0": "32"})
    port = sys / "class" / "infiniband" / "mlx5_0" / "ports" / "1"
    (port / "counters").mkdir(parents=True)
    (port / "link_layer").write_text("InfiniBand\n")
    (port / "counters" / "port_rcv_data").write_text("300\n")
    (port / "counters" / "port_xmit_data").write_text("500\n")
    assert read_links(NET_DEV, sys) == {"eth0": (1000, 2000), "mlx5_0/1": (1200, 2000)}


def test_where_no_link_is_physical_all_but_the_loopback_count(tmp_path: Path) -> None:
    assert set(read_links(NET_DEV, tmp_path)) == {"eth0", "bond0", "ib0"}


def test_a_row_tells_shares_and_growth_of_its_interval() -> None:
    before = HostReading(100, 10, 1000, 5, {"sda": (100, 100)}, {"eth0": (50, 60)})
    now = HostReading(150, 30, 1100, 6, {"sda": (300, 400), "new": (9, 9)}, {"eth0": (10, 100)})
    row = to_row(before, now, 0, 10_000, 10_000)
    assert (row["cpu_utilization_ratio"], row["io_wait_ratio"], row["memory_used_bytes"]) == (0.5, 0.2, 6)
    assert (row["disk_read_bytes"], row["disk_write_bytes"]) == (200, 300)
    assert (row["network_rx_bytes"], row["network_tx_bytes"]) == (10, 40), "a counter that fell began again at 0"
    assert to_row(before, now, 0, 10_000, 20_000)["disk_read_bytes"] == 100, "the part of a longer time that the row covers"


def test_the_host_is_told_from_tick_to_tick_whatever_its_clock_does() -> None:
    readings = iter(range(0, 10_000, 100))
    series = HostSeries(10_000, 3_000, lambda: HostReading(0, 0, total := next(readings), None, {"sda": (total, total)}))
    ticks = [
        Tick(10_000),
        Tick(20_000),
        Tick(20_000),
        Tick(80_000),
        Tick(93_000, stepped_ms=3_000),
        Tick(20_000),
    ]
    rows = [series.read(tick) for tick in ticks]
    told = [(row["interval_start_at"][14:19], row["interval_ms"], row["disk_read_bytes"]) if row else None for row in rows]
    # a longer hole is told by its last 25 s, with their part of what was counted; a step of the clock was lived by nobody
    assert told == [("00:03", 7_000, 100), ("00:10", 10_000, 100), None, ("00:55", 25_000, 42), ("01:23", 10_000, 100), None]
    later = series.read(Tick(30_000))
    assert later is not None
    assert later["interval_ms"] == 10_000


def test_waiting_time_that_falls_is_no_negative_share() -> None:
    row = to_row(HostReading(100, 40, 1000, None), HostReading(150, 30, 1100, None), 0, 1, 1)
    assert row["io_wait_ratio"] == 0
    assert "disk_read_bytes" not in row


def test_this_host_can_be_read_and_one_without_proc_cannot(tmp_path: Path) -> None:
    found = read_host()
    assert found is not None
    assert found.total > 0
    assert read_host(tmp_path, tmp_path) is None


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/slurm/uid_1000/job_42/step_0/task_0", {"job_id": "42"}),
        ("/system.slice/slurmstepd.scope/job_4711/step_batch/user/task_0", {"job_id": "4711"}),
        ("/system.slice/node7_slurmstepd.scope/job_8/step_extern/user/task_special", {"job_id": "8"}),
        (f"/kubepods/burstable/pod{UID}/{ID}", {"pod_uid": UID, "container_id": ID}),
        (f"/kubepods/pod{UID}/{ID}", {"pod_uid": UID, "container_id": ID}),
        (
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SYSTEMD}.slice/cri-containerd-{ID}.scope",
            {"pod_uid": UID, "container_id": ID},
        ),
        (
            f"/kubepods.slice/kubepods-pod{SYSTEMD}.slice/crio-{ID}.scope/container",
            {"pod_uid": UID, "container_id": ID},
        ),
        (
            f"/system.slice/containerd.service/kubepods-besteffort-pod{SYSTEMD}.slice:cri-containerd:{ID}",
            {"pod_uid": UID, "container_id": ID},
        ),
        (f"/../../kubelet-kubepods-pod{SYSTEMD}.slice/docker-{ID}.scope", {"pod_uid": UID, "container_id": ID}),
        (f"/kubepods/besteffort/pod{ID[:32]}/{ID}", {"pod_uid": ID[:32], "container_id": ID}),
        (f"/docker/{ID}", {"container_id": ID}),
        (f"/system.slice/docker-{ID}.scope", {"container_id": ID}),
        ("/user.slice/user-1000.slice/session-3.scope", {}),
        ("/", {}),
    ],
)
def test_a_cgroup_names_the_job_the_pod_and_the_container(path: str, expected: dict[str, str]) -> None:
    assert read_cgroup(f"0::{path}\n") == expected
    assert read_cgroup(f"12:devices:{path}\n11:cpu,cpuacct:{path}\n1:name=systemd:{path}\n") == expected


def test_the_environment_is_looked_at_only_where_the_cgroup_is_silent(tmp_path: Path) -> None:
    for pid, cgroup in ((1, "0::/user.slice\n"), (2, "0::/system.slice/slurmstepd.scope/job_5/step_0\n")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cgroup").write_text(cgroup)
        (tmp_path / str(pid) / "environ").write_bytes(b"A=1\0XSLURM_JOB_ID=3\0SLURM_JOB_ID=9\0B=2\0")
    assert identify(1, tmp_path) == {"job_id": "9"}
    assert identify(2, tmp_path) == {"job_id": "5"}
    assert identify(3, tmp_path) == {}


def test_nobody_is_named_without_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "cgroup").write_text(f"0::/docker/{ID}\n")
    monkeypatch.delenv("GPU_NET_USER_KEY", raising=False)
    assert "user" not in identify(1, tmp_path)
    monkeypatch.setenv("GPU_NET_USER_KEY", "key")
    assert identify(1, tmp_path)["user"]
