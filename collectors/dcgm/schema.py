"""The exporter's fields as data: which column each fills and in which unit it arrives.

Source of names and units: dcgm_fields.h and the exporter's `etc/*.csv` of releases 1.x to 4.6. The profiling fields are
ratios from 0 to 1 although their HELP text said `(in %)` until 3.x; `DCGM_FI_DEV_GPU_UTIL` is a whole percentage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Field:
    """A DCGM field that fills one column of `gpu_samples`: `value × factor`, `per_second` also times the interval.

    `is_card_level` says that under MIG the value belongs to the card, whichever instance repeats it.
    """

    column: str
    factor: float = 1.0
    per_second: bool = False
    is_card_level: bool = False


SM_ACTIVE, GRAPHICS_ACTIVE, GPU_UTIL = "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_GPU_UTIL"
TENSOR_ACTIVE, DRAM_ACTIVE = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_DRAM_ACTIVE"
#: any of these makes a sample usable (semantics 4)
ACTIVITY_FIELDS = (SM_ACTIVE, GRAPHICS_ACTIVE, GPU_UTIL)
#: fields that DCGM gives from 0 to 1
RATIO_FIELDS = frozenset({SM_ACTIVE, GRAPHICS_ACTIVE, TENSOR_ACTIVE, DRAM_ACTIVE})

USED, FREE = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"
RESERVED, TOTAL = "DCGM_FI_DEV_FB_RESERVED", "DCGM_FI_DEV_FB_TOTAL"
#: a counter in millijoules since the driver was loaded
ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
#: counters of the GPU's performance monitor (DCGM 4.6, Hopper and later): their growth is the mean of a whole interval,
#: where the gauges give the last sample of a second or so
CYCLES_ACTIVE, CYCLES_ELAPSED = "DCGM_FI_PROF_SM_CYCLES_ACTIVE_TOTAL", "DCGM_FI_PROF_SM_CYCLES_ELAPSED_TOTAL"
PCIE_RX_COUNTER, PCIE_TX_COUNTER = "DCGM_FI_PROF_PCIE_RX_BYTES_TOTAL", "DCGM_FI_PROF_PCIE_TX_BYTES_TOTAL"
COUNTERS = (ENERGY, CYCLES_ACTIVE, CYCLES_ELAPSED, PCIE_RX_COUNTER, PCIE_TX_COUNTER)
POWER_LIMITS = ("DCGM_FI_DEV_POWER_MGMT_LIMIT", "DCGM_FI_DEV_ENFORCED_POWER_LIMIT")
MAX_SM_CLOCK = "DCGM_FI_DEV_MAX_SM_CLOCK"
XID = "DCGM_FI_DEV_XID_ERRORS"
#: how often the XID in the label `xid` came up lately, a series per XID
XID_COUNT = "DCGM_EXP_XID_ERRORS_COUNT"
#: what the exporter (since 4.5.3) may give for each pod that shares a card, from its processes, instead of the card's value
PER_POD_FIELDS = (GPU_UTIL, USED)

#: of several fields for one column the first that has a value stands
FIELDS: Mapping[str, Field] = {
    SM_ACTIVE: Field("sm_active_ratio"),
    GRAPHICS_ACTIVE: Field("graphics_engine_active_ratio"),
    GPU_UTIL: Field("gpu_utilization_ratio", 0.01),
    TENSOR_ACTIVE: Field("tensor_active_ratio"),
    DRAM_ACTIVE: Field("dram_active_ratio"),
    USED: Field("memory_used_bytes", MEBIBYTE),
    "DCGM_FI_DEV_POWER_USAGE": Field("power_watts", is_card_level=True),
    "DCGM_FI_DEV_POWER_USAGE_INSTANT": Field("power_watts", is_card_level=True),
    "DCGM_FI_DEV_GPU_TEMP": Field("temperature_celsius", is_card_level=True),
    "DCGM_FI_DEV_SM_CLOCK": Field("sm_clock_mhz", is_card_level=True),
    MAX_SM_CLOCK: Field("sm_clock_max_mhz", is_card_level=True),
    "DCGM_FI_DEV_APP_SM_CLOCK": Field("sm_clock_application_mhz", is_card_level=True),
    # the name since DCGM 3.3, and the one before
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": Field("clock_event_reasons", is_card_level=True),
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": Field("clock_event_reasons", is_card_level=True),
    # rates in bytes per second, though old exporters typed them as counters (NVIDIA/dcgm-exporter#87, #88)
    "DCGM_FI_PROF_PCIE_RX_BYTES": Field("pcie_rx_bytes", per_second=True),
    "DCGM_FI_PROF_PCIE_TX_BYTES": Field("pcie_tx_bytes", per_second=True),
    # NVML's, in KB per second (`nvmlDeviceGetPcieThroughput`)
    "DCGM_FI_DEV_PCIE_RX_THROUGHPUT": Field("pcie_rx_bytes", 1000, per_second=True),
    "DCGM_FI_DEV_PCIE_TX_THROUGHPUT": Field("pcie_tx_bytes", 1000, per_second=True),
    "DCGM_FI_PROF_NVLINK_RX_BYTES": Field("nvlink_rx_bytes", per_second=True),
    "DCGM_FI_PROF_NVLINK_TX_BYTES": Field("nvlink_tx_bytes", per_second=True),
    XID: Field("xid", is_card_level=True),
}

#: fields that are read but fill no column by themselves
DERIVED_FROM = frozenset({FREE, RESERVED, TOTAL, XID_COUNT, *COUNTERS, *POWER_LIMITS})
CARD_LEVEL = frozenset({name for name, field in FIELDS.items() if field.is_card_level} | {ENERGY, *POWER_LIMITS})

#: names of the exporter before DCGM 2 (`etc/1.x-compatibility-metrics.csv`) → the field; `dcgm_fi_…` differ in case only
OLD_NAMES: Mapping[str, str] = {
    "dcgm_gpu_utilization": GPU_UTIL,
    "dcgm_sm_clock": "DCGM_FI_DEV_SM_CLOCK",
    "dcgm_gpu_temp": "DCGM_FI_DEV_GPU_TEMP",
    "dcgm_power_usage": "DCGM_FI_DEV_POWER_USAGE",
    "dcgm_total_energy_consumption": ENERGY,
    "dcgm_fb_used": USED,
    "dcgm_fb_free": FREE,
    "dcgm_fb_total": TOTAL,
    "dcgm_xid_errors": XID,
    "dcgm_pcie_rx_throughput": "DCGM_FI_DEV_PCIE_RX_THROUGHPUT",
    "dcgm_pcie_tx_throughput": "DCGM_FI_DEV_PCIE_TX_THROUGHPUT",
}


#: names since DCGM 4.6, whose field naming standard ends a name in its unit → the name that exporters had until then
NEW_NAMES: Mapping[str, str] = {
    "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO": GRAPHICS_ACTIVE,
    "DCGM_FI_PROF_SM_UTIL_RATIO": SM_ACTIVE,
    "DCGM_FI_PROF_TENSOR_UTIL_RATIO": TENSOR_ACTIVE,
    "DCGM_FI_PROF_DRAM_UTIL_RATIO": DRAM_ACTIVE,
    "DCGM_FI_DEV_GPU_UTIL_RATIO": GPU_UTIL,  # the field's value is a percentage still
    "DCGM_FI_DEV_BOARD_POWER_WATTS": "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_BOARD_POWER_RAW_WATTS": "DCGM_FI_DEV_POWER_USAGE_INSTANT",
    "DCGM_FI_DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS": POWER_LIMITS[0],
    "DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS": POWER_LIMITS[1],
    "DCGM_FI_DEV_GPU_TEMP_CELSIUS": "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_FI_DEV_XID_ERROR": XID,
}


def field_name(metric: str) -> str | None:
    """The DCGM field of a metric name, in the spelling of releases 2 to 4.5; None for a metric that is not DCGM's.

    OpenMetrics ends the names of counters in `_total`, and gives beside each the time at which it began (`_created`).
    """
    name = metric.removesuffix("_total")
    if name in OLD_NAMES:
        return OLD_NAMES[name]
    if not name.lower().startswith("dcgm_") or name.endswith("_created"):
        return None
    field = name.upper()
    return NEW_NAMES.get(field, field)
