"""What dcgm-exporter says of a cluster's cards: its fields, types and help texts, its labels (release 4)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from collectors.simulate import noise
from collectors.simulate.hardware import ALDER, Node, Slot
from collectors.simulate.plan import Plan, Run
from collectors.simulate.readings import XID_LOST, Readings, read_node
from collectors.simulate.samples import graphics_activity, utilization

ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
XID = "DCGM_FI_DEV_XID_ERRORS"
#: field, type, help
FIELDS = (
    ("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz)."),
    ("DCGM_FI_DEV_MAX_SM_CLOCK", "gauge", "Max SM clock (in MHz)."),
    ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "gauge", "Current clock event reasons (bit mask)."),
    ("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C)."),
    ("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W)."),
    (ENERGY, "counter", "Total energy consumption since boot (in mJ)."),
    ("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %)."),
    (XID, "gauge", "Value of the last XID error encountered."),
    ("DCGM_FI_DEV_FB_FREE", "gauge", "Framebuffer memory free (in MiB)."),
    ("DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB)."),
    ("DCGM_FI_PROF_SM_ACTIVE", "gauge", "The ratio of cycles an SM has at least 1 warp assigned."),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Ratio of time the graphics engine is active."),
)
#: fields that DCGM has per card only: instances have no series of them
PER_CARD = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_SM_ACTIVE")

Values = Mapping[str, str]


class _Line(NamedTuple):
    """A series' labels, and its values by field."""

    labels: str
    values: Values


def scrapes(plan: Plan, cluster: str, first: int, last: int) -> Iterator[tuple[int, str]]:
    """The minute at which each scrape is made, the end of the one it tells of, and its text."""
    lines: dict[int, list[_Line]] = defaultdict(list)
    for node in plan.fleet.in_cluster(cluster):
        readings = read_node(plan, node, first, last, 1)
        joules: dict[int, int] = {}
        for place in range(len(readings.minute)):
            slot = node.slots[int(readings.row[place])]
            minute = int(readings.minute[place]) + 1
            values = _values(node, slot, readings, place, _counted(plan, slot, readings, place, joules))
            lines[minute] += [_Line(_labels(node, slot, holder), values) for holder in _holders(plan, cluster, slot, minute)]
    for minute in sorted(lines):
        yield minute, _exposition(lines[minute])


def _counted(plan: Plan, slot: Slot, readings: Readings, place: int, joules: dict[int, int]) -> int:
    """The slot's view of its card's energy counter, in mJ; it began somewhere when the driver was loaded."""
    before = joules.get(slot.number, noise.key_of(plan.seed, slot.gpu_uuid, "energy") % 10**12)
    joules[slot.number] = before + int(readings.power_milliwatts[place]) * 60
    return joules[slot.number]


def _values(node: Node, slot: Slot, readings: Readings, place: int, millijoules: int) -> Values:
    if readings.is_lost[place]:
        return {XID: str(XID_LOST)}
    activity = readings.activity[place] / 1e6
    used = int(readings.memory_mib[place])
    values = {
        "DCGM_FI_DEV_SM_CLOCK": str(readings.clock_mhz[place]),
        "DCGM_FI_DEV_MAX_SM_CLOCK": str(node.model.clock_mhz),
        "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": str(readings.bits[place]),
        "DCGM_FI_DEV_GPU_TEMP": str(readings.temperature_celsius[place]),
        "DCGM_FI_DEV_POWER_USAGE": f"{readings.power_milliwatts[place] / 1e3:.6f}",
        ENERGY: str(millijoules),
        "DCGM_FI_DEV_GPU_UTIL": str(round(float(utilization(activity)) * 100)),
        XID: "0",
        "DCGM_FI_DEV_FB_FREE": str(slot.memory_mib - used),
        "DCGM_FI_DEV_FB_USED": str(used),
        "DCGM_FI_PROF_SM_ACTIVE": f"{activity:.6f}",
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE": f"{activity if slot.profile else float(graphics_activity(activity)):.6f}",
    }
    return {name: text for name, text in values.items() if not (slot.profile and name in PER_CARD)}


def _holders(plan: Plan, cluster: str, slot: Slot, minute: int) -> list[Run | None]:
    """The pods that the kubelet says hold the slot at the time of the scrape; Slurm's it does not know."""
    if cluster == ALDER:
        return [None]
    found = [
        run
        for run in plan.runs_by_node.get(slot.node, [])
        if slot.number in run.slots and run.start <= minute and (run.end is None or minute < run.end)
    ]
    return list(found) or [None]


def _labels(node: Node, slot: Slot, holder: Run | None) -> str:
    labels = {
        "gpu": str(slot.index),
        "UUID": slot.gpu_uuid,
        "pci_bus_id": slot.pci_bus_id,
        "device": f"nvidia{slot.index}",
        "modelName": node.model.name,
    }
    if slot.profile:
        labels |= {"GPU_I_PROFILE": slot.profile, "GPU_I_ID": str(slot.instance)}
    labels |= {"Hostname": node.name, "DCGM_FI_DRIVER_VERSION": "580.95.05"}
    if node.cluster != ALDER:
        labels |= {
            "container": "main" if holder else "",
            "namespace": holder.namespace if holder else "",
            "pod": holder.name if holder else "",
            "pod_uid": holder.job_id if holder else "",
        }
    return ",".join(f'{name}="{value}"' for name, value in labels.items())


def _exposition(lines: list[_Line]) -> str:
    text: list[str] = []
    for name, kind, explained in FIELDS:
        text += [f"# HELP {name} {explained}", f"# TYPE {name} {kind}"]
        text += [f"{name}{{{line.labels}}} {line.values[name]}" for line in lines if name in line.values]
    return "\n".join(text) + "\n"
