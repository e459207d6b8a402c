"""Which NVML answers fill which columns of `gpu_samples`, as data. Units: nvml.h, and the comments of pynvml.

- `gpu_utilization_ratio` is the mean of the driver's own samples (every 1/6 s to 1 s) since the reading before, where
  the driver keeps them: one reading of `nvmlDeviceGetUtilizationRates` speaks of the last second or less and would stand
  for ten. It is the fallback, and stands for the interval as semantics 4 says of that signal.
- `power_watts` is `nvmlDeviceGetPowerUsage`: the mean of the last second on Ampere and later (but A100), else the moment's.
  What flowed over the interval is told by the energy counter.
- PCIe: `nvmlDeviceGetPcieThroughput` blocks for 20 ms and says what flowed in them, which is no number of bytes in 10 s.
  GPM's rates between two samples and the byte counters of newer drivers are.
- `memory_used_bytes` is what `nvmlDeviceGetMemoryInfo_v2` calls used: allocated, without what the driver reserves. The
  first version of the call counts the reserved bytes as used, and is asked only where the second is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SOURCE = "nvml"
MEBIBYTE = 1 << 20
KIBIBYTE = 1 << 10

ACTIVITY = ("sm_active_ratio", "graphics_engine_active_ratio", "gpu_utilization_ratio")


@dataclass(frozen=True)
class Metric:
    """A GPM metric: `value × factor` is the column's unit, per second of the interval if `per_second`."""

    metric: str
    column: str
    factor: float
    per_second: bool = False


#: what GPM knows of a card or a MIG instance between two samples; percentages and MiB/s
GPM_METRICS = (
    Metric("NVML_GPM_METRIC_SM_UTIL", "sm_active_ratio", 0.01),
    Metric("NVML_GPM_METRIC_GRAPHICS_UTIL", "graphics_engine_active_ratio", 0.01),
    Metric("NVML_GPM_METRIC_ANY_TENSOR_UTIL", "tensor_active_ratio", 0.01),
    Metric("NVML_GPM_METRIC_DRAM_BW_UTIL", "dram_active_ratio", 0.01),
    Metric("NVML_GPM_METRIC_PCIE_RX_PER_SEC", "pcie_rx_bytes", MEBIBYTE, per_second=True),
    Metric("NVML_GPM_METRIC_PCIE_TX_PER_SEC", "pcie_tx_bytes", MEBIBYTE, per_second=True),
    Metric("NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC", "nvlink_rx_bytes", MEBIBYTE, per_second=True),
    Metric("NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC", "nvlink_tx_bytes", MEBIBYTE, per_second=True),
)


@dataclass(frozen=True)
class Counter:
    """A field value that only grows: what it grew by, times `factor`, is the column's unit.

    `scope` is the field's scopeId; a counter that `wraps` is left out where it falls, since nobody knows how often it did.
    """

    field: str
    column: str
    factor: float
    scope: int = 0
    wraps: bool = False


#: "a scopeId of UINT_MAX returns aggregate value summed up across all links" (nvml.h)
ALL_LINKS = 0xFFFFFFFF
#: asked where GPM does not know the column
COUNTERS = (
    Counter("NVML_FI_DEV_PCIE_COUNT_RX_BYTES", "pcie_rx_bytes", 1, wraps=True),
    Counter("NVML_FI_DEV_PCIE_COUNT_TX_BYTES", "pcie_tx_bytes", 1, wraps=True),
    Counter("NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX", "nvlink_rx_bytes", KIBIBYTE, scope=ALL_LINKS),
    Counter("NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX", "nvlink_tx_bytes", KIBIBYTE, scope=ALL_LINKS),
)
ENERGY = Counter("nvmlDeviceGetTotalEnergyConsumption", "energy_joules", 0.001)
COUNTERS_BY_COLUMN: Mapping[str, Counter] = {counter.column: counter for counter in (ENERGY, *COUNTERS)}


@dataclass(frozen=True)
class Call:
    """A call that answers one number of the whole card; `argument` is the name of an enum value of pynvml."""

    column: str
    functions: tuple[str, ...]
    argument: str | None = None
    factor: float = 1.0


#: read with every sample, of the card: under MIG each instance repeats them (semantics 4)
CARD_CALLS = (
    Call("power_watts", ("nvmlDeviceGetPowerUsage",), factor=0.001),
    Call("temperature_celsius", ("nvmlDeviceGetTemperature",), "NVML_TEMPERATURE_GPU"),
    Call("sm_clock_mhz", ("nvmlDeviceGetClockInfo",), "NVML_CLOCK_SM"),
    Call("clock_event_reasons", ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")),
)
#: read when the card is described, once a minute, since only an administrator changes them
SLOW_CALLS = (
    Call("sm_clock_max_mhz", ("nvmlDeviceGetMaxClockInfo",), "NVML_CLOCK_SM"),
    Call("sm_clock_application_mhz", ("nvmlDeviceGetApplicationsClock",), "NVML_CLOCK_SM"),
)

#: every reading of a sample: what a row of a gap has none of
READINGS = (
    *ACTIVITY,
    "tensor_active_ratio",
    "dram_active_ratio",
    "memory_used_bytes",
    "memory_total_bytes",
    "power_watts",
    "energy_joules",
    "temperature_celsius",
    "sm_clock_mhz",
    "sm_clock_max_mhz",
    "sm_clock_application_mhz",
    "clock_event_reasons",
    "pcie_rx_bytes",
    "pcie_tx_bytes",
    "nvlink_rx_bytes",
    "nvlink_tx_bytes",
)
