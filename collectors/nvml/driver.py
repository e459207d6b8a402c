"""NVML: the one module that imports pynvml, and that gives its codes a meaning.

A call has one of four ends: a value; no value for a reason (`Missing`), the rest of the device being readable; a device
that is lost; a driver that is gone, which only a new process finds again, since a library stays loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pynvml as nvml

__all__ = ["DeviceLostError", "DriverGoneError", "Events", "Missing", "driver_version", "nvml", "query", "session", "text"]

_NOT_SUPPORTED = {
    nvml.NVML_ERROR_NOT_SUPPORTED,
    nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    # a struct or an argument that this driver does not know yet, or a handle (MIG, vGPU) that the call is not made for
    nvml.NVML_ERROR_INVALID_ARGUMENT,
    nvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    nvml.NVML_ERROR_DEPRECATED,
}
_LOST = {nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED}
_DRIVER_GONE = {
    nvml.NVML_ERROR_UNINITIALIZED,
    nvml.NVML_ERROR_DRIVER_NOT_LOADED,
    nvml.NVML_ERROR_LIBRARY_NOT_FOUND,
    nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
}
_REMEDIES = {
    nvml.NVML_ERROR_DRIVER_NOT_LOADED: "load it (modprobe nvidia) and read dmesg",
    nvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
        "install NVIDIA's driver (libnvidia-ml.so.1); in a container pass the GPUs in; elsewhere collect from "
        "dcgm-exporter or saved files"
    ),
    nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "the driver was upgraded under a loaded module; reload the module or reboot",
    nvml.NVML_ERROR_NO_PERMISSION: "let this user read /dev/nvidia*, or run as root",
}


class DriverGoneError(Exception):
    """No driver answers in this process; the message names the remedy."""


class DeviceLostError(Exception):
    """The device does not answer any more (fallen off the bus, or waiting for a reset)."""


@dataclass(frozen=True)
class Missing:
    """No value, for a reason of the landing shape: `not_supported`, `not_permitted`, `out_of_range`, `gap` (not now)."""

    reason: str


def query(function: str, *arguments: Any) -> Any:
    """What a function of pynvml answers, or Missing; raises DeviceLostError, DriverGoneError."""
    call = getattr(nvml, function, None)
    if call is None:  # an older pynvml
        return Missing("not_supported")
    try:
        return call(*arguments)
    except nvml.NVMLError as error:
        if error.value in _LOST:
            raise DeviceLostError(str(error)) from error
        if error.value in _DRIVER_GONE:
            raise DriverGoneError(_with_remedy(error)) from error
        if error.value in _NOT_SUPPORTED:
            return Missing("not_supported")
        return Missing("not_permitted" if error.value == nvml.NVML_ERROR_NO_PERMISSION else "gap")


def _with_remedy(error: nvml.NVMLError) -> str:
    remedy = _REMEDIES.get(error.value, "run nvidia-smi and read its message")
    return f"no driver answers ({error}); {remedy}"


@contextmanager
def session() -> Iterator[None]:
    """NVML initialised; DriverGoneError where it cannot be."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise DriverGoneError(_with_remedy(error)) from error
    try:
        yield
    finally:
        with suppress(nvml.NVMLError):  # the driver may have gone first
            nvml.nvmlShutdown()


def driver_version() -> str | None:
    return text(query("nvmlSystemGetDriverVersion"))


def text(value: Any) -> str | None:
    """A string of NVML's, which an older pynvml gives as bytes; None where it is missing."""
    if isinstance(value, Missing):
        return None
    return (value.decode(errors="replace") if isinstance(value, bytes) else str(value)).strip() or None


class Events:
    """The XIDs of one device, from an event set of its own: one that is lost would end the waiting for the others."""

    def __init__(self, handle: Any) -> None:
        created = query("nvmlEventSetCreate")
        registered = created
        if not isinstance(created, Missing):
            registered = query("nvmlDeviceRegisterEvents", handle, nvml.nvmlEventTypeXidCriticalError, created)
        self.missing = registered if isinstance(registered, Missing) else None
        self._set = created

    def xids(self) -> list[int]:
        """The XIDs since the call before, without waiting."""
        found: list[int] = []
        # bounded: a device that floods its log must not hold the reader
        while self.missing is None and len(found) < 100:
            try:
                event = nvml.nvmlEventSetWait_v2(self._set, 0)
            except nvml.NVMLError:  # a timeout says that there is none; the readings tell every other trouble
                break
            if event.eventType & nvml.nvmlEventTypeXidCriticalError:
                found.append(int(event.eventData))
        return found
