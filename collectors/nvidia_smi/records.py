"""What the parsers of this package hand on: readings of a GPU and sightings of a process, with texts as printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, time

from collectors.command import SourceFailedError
from warehouse.landing.conform import Reject

NVIDIA_SMI, ROCM_SMI, AMD_SMI = "nvidia-smi", "rocm-smi", "amd-smi"


class OptionMissingError(SourceFailedError):
    """The text leaves out something that an option can say; the message names the option."""


@dataclass(frozen=True)
class Identity:
    """How the tool names a GPU; what it does not print is None. `vendor_id` is a UUID, or AMD's unique id."""

    vendor_id: str | None = None
    pci: str | None = None
    index: int | None = None

    def __bool__(self) -> bool:
        return self.vendor_id is not None or self.pci is not None or self.index is not None


@dataclass(frozen=True)
class MigDevice:
    """A MIG device: a compute instance (`ci`) of a GPU instance (`gi`), which is the slot. Memory is the GPU instance's."""

    index: int | None = None
    gi: int | None = None
    ci: int | None = None
    profile: str | None = None
    uuid: str | None = None
    multiprocessors: int | None = None
    memory_used: str = ""
    memory_total: str = ""


@dataclass(frozen=True)
class GpuReading:
    """One GPU at one instant: today's field name of `--query-gpu` → text as printed, `units` from the header.

    `at` is naive UTC; a time of day where the tool printed no date; None where it printed no time. `is_named` is False
    where the output has no place for the GPU's name at all; `shows_mig` says that it names the GPU's MIG devices, so that
    none of them here means that it has none.
    """

    line: int
    identity: Identity
    texts: Mapping[str, str]
    at: datetime | time | None = None
    node: str | None = None
    units: Mapping[str, str] = field(default_factory=dict)
    mig: tuple[MigDevice, ...] = ()
    is_named: bool = True
    shows_mig: bool = False
    tool: str = NVIDIA_SMI


@dataclass(frozen=True)
class ProcessSighting:
    """A process on a GPU at one instant; `gi` is the number of the GPU instance it runs in, under MIG."""

    line: int
    identity: Identity
    pid: int
    at: datetime | time | None = None
    node: str | None = None
    gi: int | None = None
    memory_used: str = ""
    memory_unit: str = "MiB"
    sm_utilization: str = ""
    is_named: bool = True
    tool: str = NVIDIA_SMI


@dataclass(frozen=True)
class Note:
    """What a person should know of a file; the same text is told once."""

    text: str


Found = GpuReading | ProcessSighting | Reject | Note
