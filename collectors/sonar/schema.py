"""Sonar's fields of a card as data: which column each fills and in which unit it arrives.

Source: doc/NEW-FORMAT.md and doc/OLD-FORMAT.md of NordicHPC/sonar. A field that is zero is left out there. That no kernel
runs and no memory is held is a measurement; a card that draws no power, has no clock or no temperature does not tell it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

KIBIBYTE = 1 << 10


@dataclass(frozen=True)
class Field:
    """A field that fills one column of `gpu_samples`: `value × factor`. `zero_is_missing`: zero is the lack of a reading."""

    column: str
    factor: float = 1.0
    zero_is_missing: bool = False


UTILIZATION, MEMORY = "gpu_utilization_ratio", "memory_used_bytes"

#: `gpuinfo=` of the CSV (0.13 and later), and the objects of its JSON
GPUINFO: Mapping[str, Field] = {
    "cutil%": Field(UTILIZATION, 0.01),
    "musekib": Field(MEMORY, KIBIBYTE),
    "tempc": Field("temperature_celsius", zero_is_missing=True),
    "poww": Field("power_watts", zero_is_missing=True),
    "cez": Field("sm_clock_mhz", zero_is_missing=True),
}
#: `system.gpus` of the newer JSON
SAMPLE_GPU: Mapping[str, Field] = {
    "ce_util": GPUINFO["cutil%"],
    "memory": GPUINFO["musekib"],
    "temperature": GPUINFO["tempc"],
    "power": GPUINFO["poww"],
    "ce_clock": GPUINFO["cez"],
}
