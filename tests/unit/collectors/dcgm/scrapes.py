"""Small scrapes written by hand, in the form dcgm-exporter writes them."""

from __future__ import annotations

from collections.abc import Mapping

SM = "DCGM_FI_PROF_SM_ACTIVE"
GRAPHICS = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
UTIL = "DCGM_FI_DEV_GPU_UTIL"
ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"

WHOLE = {"gpu": "0", "UUID": "GPU-1", "modelName": "NVIDIA A100-SXM4-40GB", "Hostname": "node7"}
SLICE = WHOLE | {"GPU_I_PROFILE": "1g.5gb", "GPU_I_ID": "7"}


def scrape(values: Mapping[str, float | str], labels: Mapping[str, str] = WHOLE) -> str:
    """One line per value, each with all the labels, and no line end after the last one."""
    named = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return "\n".join(f"# TYPE {name} gauge\n{name}{{{named}}} {value}" for name, value in values.items())
