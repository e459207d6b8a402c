"""The fields as data: today's name in `--query-gpu`, its other names, its place in `-q -x` and in `-q`, its unit.

Sources: `nvidia-smi --help-query-gpu` of drivers 515 to 610, the DTDs nvsmi_device_v10 to v13 as printed, nvml.h for the
bits of the clock event reasons, rocm_smi.py and amd-smi's `metric --json` for AMD's names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

RATIO, BYTES, WATTS, MEGAHERTZ, CELSIUS, JOULES = "%", "MiB", "W", "MHz", "C", "J"


@dataclass(frozen=True)
class Field:
    """`unit` is the one a bare number is in; None for a text. `xml` and `text` are paths below a GPU."""

    name: str
    unit: str | None = None
    aliases: tuple[str, ...] = ()
    xml: tuple[str, ...] = ()
    text: tuple[str, ...] = ()


#: bits of NVML's mask (nvml.h, nvmlClocksEventReason…); 0x8 of hw_slowdown covers 0x40 and 0x80
REASON_BITS: Mapping[str, int] = {
    "gpu_idle": 0x1,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
    "display_clocks_setting": 0x100,
}
REASON = "clocks_event_reasons."
_REASON_TEXTS = {
    "gpu_idle": ("idle",),
    "hw_thermal_slowdown": ("hw slowdown/hw thermal slowdown", "hw thermal slowdown"),
    "hw_power_brake_slowdown": ("hw slowdown/hw power brake slowdown", "hw power brake slowdown"),
    "display_clocks_setting": ("display clock setting", "display clocks setting"),
}


def _reason(name: str) -> Field:
    texts = _REASON_TEXTS.get(name, (name.replace("_", " "),))
    return Field(
        f"{REASON}{name}",
        aliases=(f"clocks_throttle_reasons.{name}",),
        xml=tuple(f"clocks_{word}_reasons/clocks_{word}_reason_{name}" for word in ("event", "throttle")),
        text=tuple(f"clocks {word} reasons/{text}" for word in ("event", "throttle") for text in texts),
    )


FIELDS: tuple[Field, ...] = (
    Field("timestamp"),
    Field("hostname"),
    Field("name", aliases=("gpu_name",), xml=("product_name",), text=("product name",)),
    Field("uuid", aliases=("gpu_uuid",), xml=("uuid",), text=("gpu uuid",)),
    Field("pci.bus_id", aliases=("gpu_bus_id", "gpu.bus_id", "pci_bus_id"), xml=("pci/pci_bus_id",), text=("pci/bus id",)),
    Field("index", aliases=("gpu_index",)),
    Field("serial", aliases=("gpu_serial",), xml=("serial",), text=("serial number",)),
    Field("driver_version"),
    Field("mig.mode.current", xml=("mig_mode/current_mig",), text=("mig mode/current",)),
    Field("utilization.gpu", RATIO, xml=("utilization/gpu_util",), text=("utilization/gpu",)),
    Field(
        "memory.used",
        BYTES,
        xml=("fb_memory_usage/used", "memory_usage/used"),
        text=("fb memory usage/used", "memory usage/used"),
    ),
    Field(
        "memory.total",
        BYTES,
        xml=("fb_memory_usage/total", "memory_usage/total"),
        text=("fb memory usage/total", "memory usage/total"),
    ),
    Field(
        "power.draw",
        WATTS,
        xml=("gpu_power_readings/power_draw", "power_readings/power_draw"),
        text=("gpu power readings/power draw", "power readings/power draw"),
    ),
    Field(
        "power.draw.average",
        WATTS,
        aliases=("gpu.power.draw.average",),
        xml=("gpu_power_readings/average_power_draw",),
        text=("gpu power readings/average power draw",),
    ),
    Field(
        "power.draw.instant",
        WATTS,
        aliases=("gpu.power.draw.instant",),
        xml=("gpu_power_readings/instant_power_draw",),
        text=("gpu power readings/instantaneous power draw",),
    ),
    Field(
        "power.limit",
        WATTS,
        aliases=("gpu.power.requested_limit", "gpu.power.limit"),
        xml=("gpu_power_readings/current_power_limit", "power_readings/power_limit"),
        text=("gpu power readings/current power limit", "power readings/power limit"),
    ),
    Field(
        "enforced.power.limit",
        WATTS,
        aliases=("gpu.power.current_limit",),
        xml=("power_readings/enforced_power_limit",),
        text=("power readings/enforced power limit",),
    ),
    Field("temperature.gpu", CELSIUS, xml=("temperature/gpu_temp",), text=("temperature/gpu current temp", "temperature/gpu")),
    Field("clocks.current.sm", MEGAHERTZ, aliases=("clocks.sm",), xml=("clocks/sm_clock",), text=("clocks/sm",)),
    Field("clocks.max.sm", MEGAHERTZ, xml=("max_clocks/sm_clock",), text=("max clocks/sm",)),
    Field(
        "clocks.applications.graphics",
        MEGAHERTZ,
        aliases=("clocks.applications.gr",),
        xml=("applications_clocks/graphics_clock",),
        text=("applications clocks/graphics",),
    ),
    Field(f"{REASON}active", aliases=("clocks_throttle_reasons.active",)),
    *(_reason(name) for name in REASON_BITS),
    # AMD's: joules since the driver was loaded
    Field("energy", JOULES),
)
#: columns of the process queries
PROCESS_FIELDS: tuple[Field, ...] = (
    Field("pid"),
    Field("process_name", aliases=("name",)),
    Field("used_gpu_memory", BYTES, aliases=("used_memory",)),
    Field("gpu_utilization", RATIO, aliases=("gpu_util",)),
    Field("mem_utilization", RATIO, aliases=("mem_util",)),
    Field("max_memory_usage", BYTES),
    Field("time"),
)

#: column of gpu_samples → the fields that fill it, the first one with a number. An average over the last second stands
#: better for the time between two readings than an instant; `power.draw` is that average from Ampere on, but on GA100
SAMPLE_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "gpu_utilization_ratio": ("utilization.gpu",),
    "memory_used_bytes": ("memory.used",),
    "memory_total_bytes": ("memory.total",),
    "power_watts": ("power.draw", "power.draw.average", "power.draw.instant"),
    "temperature_celsius": ("temperature.gpu",),
    "sm_clock_mhz": ("clocks.current.sm",),
    "sm_clock_max_mhz": ("clocks.max.sm",),
    "sm_clock_application_mhz": ("clocks.applications.graphics",),
}
#: readings of the instant; a text without any of them (a listing) is no sample
READINGS = frozenset(
    {"utilization.gpu", "memory.used", "temperature.gpu", "clocks.current.sm", "energy", f"{REASON}active"}
    | set(SAMPLE_COLUMNS["power_watts"])
    | {f"{REASON}{name}" for name in REASON_BITS}
)
#: under MIG these belong to an instance or are not measured, the others to the card
INSTANCE_COLUMNS = frozenset({"gpu_utilization_ratio", "memory_used_bytes", "memory_total_bytes"})

BY_NAME: Mapping[str, Field] = {field.name: field for field in (*PROCESS_FIELDS, *FIELDS)}
UNITS: Mapping[str, str] = {field.name: field.unit for field in BY_NAME.values() if field.unit}
QUERY_NAMES: Mapping[str, str] = {
    **{alias: field.name for field in FIELDS for alias in (field.name, *field.aliases)},
    # a driver's own doubles
    "clocks_event_reasons.user_defined_clocks": f"{REASON}applications_clocks_setting",
    "clocks_throttle_reasons.user_defined_clocks": f"{REASON}applications_clocks_setting",
}
PROCESS_NAMES: Mapping[str, str] = {
    **{name: QUERY_NAMES[name] for name in ("timestamp", "hostname", "gpu_name", "gpu_uuid", "gpu_bus_id", "gpu_serial")},
    **{alias: field.name for field in PROCESS_FIELDS for alias in (field.name, *field.aliases)},
}
XML_PATHS: Mapping[str, str] = {path: field.name for field in FIELDS for path in field.xml}
TEXT_PATHS: Mapping[str, str] = {path: field.name for field in FIELDS for path in field.text}

#: columns of dmon and pmon; `sm` is the utilisation that NVML gives for the GPU, memory in MB is MiB
MONITOR_NAMES: Mapping[str, str] = {
    "gpu": "index",
    "pwr": "power.draw",
    "gtemp": "temperature.gpu",
    "temp": "temperature.gpu",
    "sm": "utilization.gpu",
    "pclk": "clocks.current.sm",
    "fb": "memory.used",
}

#: rocm-smi's names without the colon that ends some of them, lower case
ROCM_NAMES: Mapping[str, str] = {
    "unique id": "uuid",
    "pci bus": "pci.bus_id",
    "serial number": "serial",
    "card series": "name",
    "device name": "name",
    "card model": "model_number",
    "gpu use (%)": "utilization.gpu",
    "vram total memory (b)": "memory.total",
    "vram total used memory (b)": "memory.used",
    "average graphics package power (w)": "power.draw.average",
    "current socket graphics package power (w)": "power.draw.instant",
    "max graphics package power (w)": "power.limit",
    "temperature (sensor edge) (c)": "temperature.gpu",
    "temperature (sensor junction) (c)": "temperature.junction",
    "sclk clock speed": "clocks.current.sm",
    "accumulated energy (uj)": "energy",
}
ROCM_UNITS: Mapping[str, str] = {"memory.total": "B", "memory.used": "B", "energy": "uJ"}

#: columns of `amd-smi monitor --csv`
AMD_COLUMNS: Mapping[str, str] = {
    "timestamp": "timestamp",
    "gpu": "index",
    "gfx": "utilization.gpu",
    "gfx_clk": "clocks.current.sm",
    "gfx_clock": "clocks.current.sm",
    "vram_used": "memory.used",
    "vram_total": "memory.total",
    "power_usage": "power.draw",
    "hotspot_temperature": "temperature.gpu",
    "gpu_temperature": "temperature.gpu",
}

#: amd-smi's paths in `metric`, `static` and `list`
AMD_PATHS: Mapping[str, str] = {
    "uuid": "uuid",
    "bdf": "pci.bus_id",
    "bus/bdf": "pci.bus_id",
    "asic/market_name": "name",
    "asic/asic_serial": "serial",
    "driver/version": "driver_version",
    "driver/driver_version": "driver_version",
    "vram/size": "memory.total",
    "limit/socket_power": "power.limit",
    "limit/ppt0/socket_power_limit": "power.limit",
    "usage/gfx_activity": "utilization.gpu",
    "usage/gfx_usage": "utilization.gpu",
    "power/socket_power": "power.draw",
    "power/average_socket_power": "power.draw.average",
    "power/current_socket_power": "power.draw.instant",
    "temperature/edge": "temperature.gpu",
    "temperature/hotspot": "temperature.junction",
    "clock/gfx_0/clk": "clocks.current.sm",
    "clock/gfx_0/max_clk": "clocks.max.sm",
    "mem_usage/total_vram": "memory.total",
    "mem_usage/used_vram": "memory.used",
    "energy/total_energy_consumption": "energy",
}

#: what nvidia-smi prints instead of an answer, in lower case without brackets → the reason; `gap`: it should have answered
MISSING: Mapping[str, str] = {
    "": "not_supported",
    "-": "not_supported",
    "n/a": "not_supported",
    "none": "not_supported",
    "unknown error": "not_supported",
    "function not found": "not_supported",
    "not found": "not_supported",
    "requested functionality has been deprecated": "not_supported",
    "insufficient permissions": "not_permitted",
    "no permission": "not_permitted",
    "nan": "out_of_range",
    "err!": "gap",
    "gpu is lost": "gap",
    "gpu requires reset": "gap",
}
LOST = "gpu is lost"

#: what is printed for a GPU that cannot be reached, and ends the output
UNREACHABLE = re.compile(
    r"Unable to determine the device handle for (?:GPU|gpu)\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]): "
    r"(?:GPU is lost|Unknown Error)"
)
#: what is printed instead of all output
FAILURE = re.compile(
    r"NVIDIA-SMI has failed|No devices were found|Failed to initialize NVML|couldn't (?:find|communicate)|"
    r"Unable to determine the device handle|"
    r"is not a valid field to query|nvidia-smi\W.*not (?:found|recognized)|"
    r"Driver/library version mismatch|Reboot the system to recover|Failed to properly shut down NVML|NVML: Unknown Error|"
    r"No JSON data to report|Insufficient Permissions$",
    re.IGNORECASE,
)
