"""`nvidia-smi -L`: which GPUs there are, and into which MIG devices they are split."""

from __future__ import annotations

import re
from collections.abc import Iterable

from collectors.nvidia_smi.records import Found, GpuReading, Identity, MigDevice

_GPU = re.compile(r"\s*GPU (\d{1,4}): (.*?) \(UUID: ([^)\s]+)\)\s*")
_MIG = re.compile(r"\s*MIG\s+(\S+)\s+Device\s+(\d{1,3}): \(UUID: (MIG-[^)\s]+)\)\s*")
#: drivers before R470 name an instance by its card's UUID and its numbers
_NUMBERED = re.compile(r"MIG-GPU-[^/]+/(\d+)/(\d+)")


def begins_listing(text: str) -> bool:
    """Whether this line names a GPU with its UUID."""
    return "(UUID:" in text and _GPU.fullmatch(text) is not None


class ListingBlock:
    """Reads the GPUs of one listing, or of several in a row."""

    def __init__(self) -> None:
        self._gpu: GpuReading | None = None
        self._mig: list[MigDevice] = []

    def feed(self, line: int, text: str) -> Iterable[Found] | None:
        match = _GPU.fullmatch(text)
        if match:
            complete = tuple(self.finish())
            index, name, uuid = match.groups()
            self._gpu = GpuReading(line, Identity(uuid, None, int(index)), {"name": name, "uuid": uuid})
            return complete
        match = _MIG.fullmatch(text)
        if match:
            profile, device, uuid = match.groups()
            numbers = _NUMBERED.fullmatch(uuid)
            gi, ci = (int(numbers[1]), int(numbers[2])) if numbers else (None, None)
            self._mig.append(MigDevice(int(device), gi, ci, profile, uuid))
            return ()
        return None if text.strip() else ()

    def finish(self) -> Iterable[Found]:
        gpu, mig = self._gpu, tuple(self._mig)
        self._gpu, self._mig = None, []
        if gpu is not None:
            yield GpuReading(gpu.line, gpu.identity, gpu.texts, mig=mig, shows_mig=True)
