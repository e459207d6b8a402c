"""The host side of waiting, from /proc and /sys: processor, I/O wait, memory, disks, network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from collectors.nvml.grid import Tick, reach_ms, text_of

#: disks that only pass on to others (LVM, RAID, loop, memory): counting them would count twice
_VIRTUAL_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd")
_SECTOR_BYTES = 512
#: "total number of data octets, divided by 4 (lanes)": sysfs-class-infiniband of the kernel
_INFINIBAND_WORD = 4
_INFINIBAND_TYPE = "32"

Pair = tuple[int, int]


@dataclass(frozen=True)
class HostReading:
    """Counters of the host at one instant, and the memory in use. `disks` and `links`: name → bytes in, bytes out."""

    busy: int
    waiting: int
    total: int
    memory_used_bytes: int | None
    disks: Mapping[str, Pair] = field(default_factory=dict)
    links: Mapping[str, Pair] = field(default_factory=dict)


def read_host(proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> HostReading | None:
    """The host as it is now; None where /proc tells nothing."""
    try:
        busy, waiting, total = parse_cpu((proc / "stat").read_text())
    except (OSError, ValueError, IndexError):
        return None
    return HostReading(
        busy,
        waiting,
        total,
        parse_memory(_text(proc / "meminfo")),
        parse_disks(_text(proc / "diskstats"), {path.name for path in _listed(sys / "block")}),
        read_links(_text(proc / "net" / "dev"), sys),
    )


class HostSeries:
    """The host from tick to tick: each row tells the time since the one before, at most 2.5 intervals of it."""

    def __init__(self, interval_ms: int, at: int, read: Callable[[], HostReading | None] = read_host) -> None:
        self._interval_ms, self._at, self._read = interval_ms, at, read
        self._before = read()
        self._clock_forward_ms = 0

    def read(self, tick: Tick) -> dict[str, Any] | None:
        """The row of the time up to `tick`; None where there is nothing to compare with, or that time is told already."""
        self._clock_forward_ms += max(0, tick.stepped_ms)
        reach = reach_ms(self._interval_ms)
        if self._at - reach <= tick.at <= self._at:
            return None
        before, elapsed = self._before, max(1, tick.at - self._at - self._clock_forward_ms)
        is_set_back = tick.at < self._at
        self._before, self._at, self._clock_forward_ms = self._read(), tick.at, 0
        if before is None or self._before is None or is_set_back:
            return None
        return to_row(before, self._before, tick.at - min(elapsed, reach), tick.at, elapsed)


def to_row(before: HostReading, now: HostReading, start_ms: int, end_ms: int, elapsed_ms: int) -> dict[str, Any]:
    """What happened between two readings `elapsed_ms` apart, as a row of `node_samples` for `[start_ms, end_ms)`."""
    share = min(1.0, (end_ms - start_ms) / elapsed_ms)
    total = now.total - before.total
    row: dict[str, Any] = {
        "interval_start_at": text_of(start_ms),
        "interval_ms": end_ms - start_ms,
        "memory_used_bytes": now.memory_used_bytes,
    }
    if total > 0:
        # the kernel's iowait may fall (proc(5)); a share is at least 0
        row["cpu_utilization_ratio"] = round(min(1.0, max(0, now.busy - before.busy) / total), 4)
        row["io_wait_ratio"] = round(min(1.0, max(0, now.waiting - before.waiting) / total), 4)
    for name, earlier, later in (("disk", before.disks, now.disks), ("network", before.links, now.links)):
        read, written = grown(earlier, later)
        columns = ("disk_read_bytes", "disk_write_bytes") if name == "disk" else ("network_rx_bytes", "network_tx_bytes")
        if later:
            row |= {columns[0]: round(read * share), columns[1]: round(written * share)}
    return row


def grown(before: Mapping[str, Pair], now: Mapping[str, Pair]) -> Pair:
    """What the counters of all devices grew by; one that fell began again at 0, one that is new has no growth yet."""
    sums = [0, 0]
    for name, counters in now.items():
        for side in range(2) if name in before else ():
            growth = counters[side] - before[name][side]
            sums[side] += growth if growth >= 0 else counters[side]
    return sums[0], sums[1]


def parse_cpu(stat: str) -> tuple[int, int, int]:
    """Busy, waiting for I/O, and all time of all processors, in clock ticks, from the first line of /proc/stat."""
    fields = [int(value) for value in stat.splitlines()[0].split()[1:9]]
    # user nice system idle iowait irq softirq steal; guest time is in user time
    total = sum(fields)
    return total - fields[3] - fields[4], fields[4], total


def parse_memory(meminfo: str) -> int | None:
    """Bytes that are not available to a new process, as `free` counts them."""
    values = {line.split(":")[0]: line.split()[1] for line in meminfo.splitlines() if len(line.split()) >= 2}
    try:
        return (int(values["MemTotal"]) - int(values["MemAvailable"])) * 1024
    except (KeyError, ValueError):
        return None


def parse_disks(diskstats: str, whole: set[str]) -> dict[str, Pair]:
    """Bytes read and written since boot by each whole disk; `whole` names those (empty: all that look like one)."""
    found = {}
    for line in diskstats.splitlines():
        fields = line.split()
        if len(fields) < 10 or fields[2].startswith(_VIRTUAL_DISKS) or (whole and fields[2] not in whole):
            continue
        found[fields[2]] = (int(fields[5]) * _SECTOR_BYTES, int(fields[9]) * _SECTOR_BYTES)
    return found


def read_links(net_dev: str, sys: Path) -> dict[str, Pair]:
    """Bytes received and sent by each physical link: Ethernet from /proc/net/dev, InfiniBand (RDMA as well) from its ports.

    Bridges, bonds and containers' ends pass on what a physical link carries; where no link is physical (a container
    with a network of its own), all but the loopback count.
    """
    ports = {}
    for port in _listed(sys / "class" / "infiniband", "*/ports/*"):
        if _text(port / "link_layer").strip() == "InfiniBand":
            received, sent = (_text(port / "counters" / f"port_{way}_data").strip() for way in ("rcv", "xmit"))
            if received.isdecimal() and sent.isdecimal():
                ports[f"{port.parent.parent.name}/{port.name}"] = (int(received) * _INFINIBAND_WORD, int(sent) * _INFINIBAND_WORD)
    links = {}
    for line in net_dev.splitlines()[2:]:
        name, _, counters = line.partition(":")
        fields = counters.split()
        if len(fields) >= 9 and name.strip() != "lo":
            links[name.strip()] = (int(fields[0]), int(fields[8]))
    folder = sys / "class" / "net"
    physical = {name: pair for name, pair in links.items() if (folder / name / "device").exists()}
    if ports:
        # IP over InfiniBand is in its port's counters already
        physical = {name: pair for name, pair in physical.items() if _text(folder / name / "type").strip() != _INFINIBAND_TYPE}
    return {**(physical or ({} if ports else links)), **ports}


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _listed(folder: Path, pattern: str = "*") -> list[Path]:
    try:
        return list(folder.glob(pattern))
    except OSError:
        return []
