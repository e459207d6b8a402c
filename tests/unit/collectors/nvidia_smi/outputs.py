"""Small outputs of the tools, and a way to land them and look at the rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
from click.testing import CliRunner

from collectors.__main__ import main

UUID = "GPU-11111111-2222-3333-4444-555555555555"
OTHER_UUID = "GPU-66666666-7777-8888-9999-000000000000"

QUERY = f"""timestamp, index, uuid, name, utilization.gpu [%], memory.used [MiB], memory.total [MiB], power.draw [W]
2026/07/14 09:00:00.500, 0, {UUID}, NVIDIA L40S, 97 %, 1024 MiB, 46068 MiB, 300.50 W
2026/07/14 09:00:10.500, 0, {UUID}, NVIDIA L40S, 0 %, 1024 MiB, 46068 MiB, 80.00 W
2026/07/14 09:00:20.500, 0, {UUID}, NVIDIA L40S, [N/A], [Unknown Error], 46068 MiB, ERR!
"""

XML_GPU = """    <gpu id="00000000:{bus}:00.0">
        <product_name>{name}</product_name>
        <mig_mode><current_mig>{mode}</current_mig></mig_mode>
        <mig_devices>{devices}</mig_devices>
        <uuid>{uuid}</uuid>
        <fb_memory_usage><total>{total} MiB</total><used>50 MiB</used></fb_memory_usage>
        <utilization><gpu_util>{utilization}</gpu_util><encoder_util>60 %</encoder_util></utilization>
        <temperature><gpu_temp>41 C</gpu_temp></temperature>
        {power}
        <clocks><sm_clock>1275 MHz</sm_clock></clocks>
        <max_clocks><sm_clock>1410 MHz</sm_clock></max_clocks>
        <applications_clocks><graphics_clock>Requested functionality has been deprecated</graphics_clock></applications_clocks>
        {reasons}
        <processes>{processes}</processes>
    </gpu>
"""
POWER_V11 = "<power_readings><power_draw>67.03 W</power_draw><power_limit>400.00 W</power_limit></power_readings>"
POWER_V13 = (
    "<gpu_power_readings><average_power_draw>8.81 W</average_power_draw><instant_power_draw>8.44 W</instant_power_draw>"
    "<current_power_limit>70.00 W</current_power_limit></gpu_power_readings>"
    "<module_power_readings><average_power_draw>N/A</average_power_draw></module_power_readings>"
)


def xml_gpu(**changes: str) -> str:
    """One `<gpu>`, a whole A100 unless told otherwise."""
    told = {
        "bus": "01",
        "name": "NVIDIA A100-SXM4-80GB",
        "mode": "Disabled",
        "devices": "None",
        "uuid": UUID,
        "total": "81920",
        "utilization": "37 %",
        "power": POWER_V11,
        "reasons": "",
        "processes": "",
    }
    return XML_GPU.format(**{**told, **changes})


def xml_log(*gpus: str, time: str = "Mon Apr 24 16:11:51 2023", schema: int = 12) -> str:
    """A document of `nvidia-smi -q -x`."""
    stamp = f"    <timestamp>{time}</timestamp>\n" if time else ""
    return (
        f'<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v{schema}.dtd">\n<nvidia_smi_log>\n{stamp}'
        f"    <driver_version>535.54.03</driver_version>\n    <attached_gpus>{len(gpus)}</attached_gpus>\n"
        f"{''.join(gpus)}</nvidia_smi_log>\n"
    )


def mig_device(index: int, gi: int, ci: int = 0, *, total: int, used: int, multiprocessors: int) -> str:
    """One `<mig_device>`; the memory is that of its GPU instance."""
    return (
        f"<mig_device><index>{index}</index><gpu_instance_id>{gi}</gpu_instance_id><compute_instance_id>{ci}</compute_instance_id>"
        f"<device_attributes><shared><multiprocessor_count>{multiprocessors}</multiprocessor_count></shared></device_attributes>"
        f"<fb_memory_usage><total>{total} MiB</total><used>{used} MiB</used></fb_memory_usage></mig_device>"
    )


@dataclass
class Landed:
    """What a call did: its exit code, what it printed, the rows of each table in the order of time and slot."""

    code: int
    said: str
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    quarantine: list[dict[str, Any]] = field(default_factory=list)

    @property
    def samples(self) -> list[dict[str, Any]]:
        return self.tables.get("gpu_samples", [])

    @property
    def inventory(self) -> list[dict[str, Any]]:
        return self.tables.get("gpu_inventory", [])

    @property
    def processes(self) -> list[dict[str, Any]]:
        return self.tables.get("gpu_processes", [])


def land(home: Path, *texts: str | bytes, options: str = "", node: str | None = "node7") -> Landed:
    """Land texts, each as a file of its own, in one call."""
    folder = home.parent / "files"
    folder.mkdir(exist_ok=True)
    paths = []
    for number, text in enumerate(texts):
        path = folder / f"output{number}.log"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        paths.append(str(path))
    given = [*paths, "--cluster", "x", *(["--node", node] if node else []), *options.split()]
    result = CliRunner().invoke(main, ["nvidia-smi", *given], catch_exceptions=False)
    return Landed(result.exit_code, result.output, rows_of(home), rejects_of(home))


def rows_of(home: Path) -> dict[str, list[dict[str, Any]]]:
    """All landed rows by table."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted((home / "raw" / "nvidia-smi").glob("gpu_*/dt=*/*.parquet")):
        found.setdefault(path.parts[-3], []).extend(pl.read_parquet(path).to_dicts())
    for rows in found.values():
        rows.sort(key=lambda row: (row.get("interval_start_at") or row["seen_at"], row["gpu_uuid"], row["slot_uuid"] or ""))
    return found


def rejects_of(home: Path) -> list[dict[str, Any]]:
    """All quarantined rows."""
    paths = sorted((home / "quarantine").glob("**/*.parquet"))
    return [row for path in paths for row in pl.read_parquet(path).to_dicts()]
