"""The fleet's last two hours as the systems themselves write them: `sacct`, dcgm-exporter, a FOCUS bill."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from demo.bill import write_focus
from demo.fleet import ALDER, CIRRUS, END_AT, JOBS, NATIVE_FROM, PODS, Job
from demo.telemetry import MINUTE, Reading, readings

#: reading → field; the exporter's own names, types and help texts
FIELDS = (
    ("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz)."),
    ("DCGM_FI_DEV_MAX_SM_CLOCK", "gauge", "Max SM clock (in MHz)."),
    ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "gauge", "Current clock event reasons (bit mask)."),
    ("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C)."),
    ("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W)."),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "Total energy consumption since boot (in mJ)."),
    ("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %)."),
    ("DCGM_FI_DEV_XID_ERRORS", "gauge", "Value of the last XID error encountered."),
    ("DCGM_FI_DEV_FB_FREE", "gauge", "Framebuffer memory free (in MiB)."),
    ("DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB)."),
    ("DCGM_FI_PROF_SM_ACTIVE", "gauge", "The ratio of cycles an SM has at least 1 warp assigned (in %)."),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Ratio of time the graphics engine is active (in %)."),
)


def write(folder: Path) -> None:
    """Write `slurm/`, `dcgm/` and `billing/` below `folder`, as `python -m collectors incoming` takes them."""
    _write(folder / "slurm" / ALDER / "sacct.txt", sacct())
    for cluster in (ALDER, CIRRUS):
        for scraped_at, text in scrapes(cluster):
            _write(folder / "dcgm" / cluster / f"{scraped_at:%Y-%m-%dT%H-%M-%SZ}.prom", text)
    write_focus(folder / "billing" / "focus-2026-11.csv", datetime(2026, 11, 4), END_AT)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


SACCT_FIELDS = (
    "JobIDRaw|JobID|JobName|Account|Partition|State|ExitCode|Submit|Eligible|Start|End|ElapsedRaw|Suspended|NNodes|NodeList|"
    "ReqTRES|AllocTRES"
)


def sacct() -> str:
    """`sacct --allusers --duplicates --parsable2 --starttime … --endtime …` of the last two hours: jobs, steps, the queue."""
    lines = [SACCT_FIELDS]
    for job in JOBS:
        if job.end_at is None or job.end_at > NATIVE_FROM:
            lines += _job_lines(job)
    tres = "billing=8,cpu=8,gres/gpu=1,mem=64G,node=1"
    queued = f"{_time(END_AT - 70 * MINUTE)}|Unknown|Unknown|Unknown|0|00:00:00|1|None assigned|{tres}|"
    lines.append(f"4107|4107_[0-31%4]|sweep-0023|vision|gpu|PENDING|0:0|{queued}")
    return "\n".join(lines) + "\n"


def _job_lines(job: Job) -> Iterator[str]:
    tres = f"billing={8 * job.gpu_count},cpu={8 * job.gpu_count},gres/gpu={job.gpu_count},mem={64 * job.gpu_count}G,node=1"
    submitted = _time(job.start_at - timedelta(minutes=3))
    end = _time(job.end_at) if job.end_at else "Unknown"
    elapsed = int(((job.end_at or END_AT) - job.start_at).total_seconds())
    times = f"{submitted}|{submitted}|{_time(job.start_at)}|{end}|{elapsed}|00:00:00|1|{job.node}"
    yield f"{job.job_id}|{job.job_id}|{job.name}|{job.account}|gpu|{job.state}|0:0|{times}|{tres}|{tres}"
    for step in ("interactive",) if job.is_interactive else ("batch", "extern"):
        state = "CANCELLED" if job.state == "TIMEOUT" else job.state
        yield f"{job.job_id}.{step}|{job.job_id}.{step}|{step}|{job.account}||{state}|0:0|{times}||{tres}"


def _time(instant: datetime) -> str:
    return f"{instant:%Y-%m-%dT%H:%M:%S}"


def scrapes(cluster: str) -> Iterator[tuple[datetime, str]]:
    """A scrape per minute of all exporters of a cluster, and when it was made: at the end of the minute it tells of."""
    by_minute: dict[datetime, list[Reading]] = defaultdict(list)
    for reading in readings(NATIVE_FROM, END_AT):
        if reading.node.cluster == cluster:
            by_minute[reading.start_at].append(reading)
    # millijoules since the driver was loaded, one counter per card
    energy: dict[str, float] = defaultdict(lambda: 3.6e12)
    for minute in sorted(by_minute):
        for card in {reading.slot.gpu_uuid: reading for reading in by_minute[minute]}.values():
            energy[card.slot.gpu_uuid] += card.power_watts * 60_000
        yield minute + MINUTE, exposition(by_minute[minute], energy)


def exposition(at_once: list[Reading], energy: dict[str, float]) -> str:
    lines = []
    for field, kind, help_text in FIELDS:
        lines += [f"# HELP {field} {help_text}", f"# TYPE {field} {kind}"]
        for reading in at_once:
            value = _value(field, reading, energy)
            if value is not None:
                lines.append(f"{field}{{{_labels(reading)}}} {value}")
    return "\n".join(lines) + "\n"


def _value(field: str, reading: Reading, energy: dict[str, float]) -> str | None:
    """The field as the exporter prints it; None where it has no series (SM activity and utilisation of a MIG instance)."""
    used_mib = reading.memory_bytes >> 20
    total_mib = int(reading.node.slot_memory_gib(reading.slot) * 1024)
    values: dict[str, str | None] = {
        "DCGM_FI_DEV_SM_CLOCK": str(reading.clock_mhz),
        "DCGM_FI_DEV_MAX_SM_CLOCK": str(reading.node.clock_mhz),
        "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": str(reading.clock_event_reasons),
        "DCGM_FI_DEV_GPU_TEMP": str(reading.temperature_celsius),
        "DCGM_FI_DEV_POWER_USAGE": f"{reading.power_watts:.6f}",
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": f"{energy[reading.slot.gpu_uuid]:.0f}",
        "DCGM_FI_DEV_GPU_UTIL": None if reading.is_partition else str(100 * (reading.activity > 0)),
        "DCGM_FI_DEV_XID_ERRORS": "0",
        "DCGM_FI_DEV_FB_FREE": str(total_mib - used_mib),
        "DCGM_FI_DEV_FB_USED": str(used_mib),
        "DCGM_FI_PROF_SM_ACTIVE": None if reading.is_partition else f"{reading.activity:.6f}",
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE": f"{min(1.0, reading.activity * 1.04):.6f}",
    }
    return values[field]


def _labels(reading: Reading) -> str:
    slot, node = reading.slot, reading.node
    labels = {
        "gpu": str(slot.index),
        "UUID": slot.gpu_uuid,
        "pci_bus_id": f"00000000:{0x17 + 0x2A * slot.index:02X}:00.0",
        "device": f"nvidia{slot.index}",
        "modelName": node.gpu_model,
    }
    if slot.instance is not None:
        labels |= {"GPU_I_PROFILE": slot.profile or "", "GPU_I_ID": str(slot.instance)}
    labels |= {"Hostname": node.name, "DCGM_FI_DRIVER_VERSION": "580.95.05"}
    if node.cluster == CIRRUS:
        holder = next(
            (
                pod
                for pod in PODS
                if (pod.node, pod.index, pod.instance) == (node.name, slot.index, slot.instance)
                and pod.start_at <= reading.start_at < (pod.end_at or END_AT)
            ),
            None,
        )
        labels |= {
            "container": "main" if holder else "",
            "namespace": holder.namespace if holder else "",
            "pod": holder.name if holder else "",
            "pod_uid": holder.uid if holder else "",
        }
    return ",".join(f'{name}="{value}"' for name, value in labels.items())
