"""`nvidia-smi dmon` and `pmon`: columns under two lines that begin with #, which come again every few dozen rows.

dmon's `sm` is the utilisation that NVML gives for the GPU. pmon's is of one process, which takes turns with the others:
the figures of one tick belong to that tick and are not to be added up over several. `-` is no sample, not 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from collectors.nvidia_smi.blocks import Reading
from collectors.nvidia_smi.records import Found, GpuReading, Identity, ProcessSighting
from collectors.nvidia_smi.schema import MONITOR_NAMES
from collectors.nvidia_smi.times import read_clock
from collectors.nvidia_smi.values import read_whole

_NAMES = re.compile(r"#\s*(Date|Time|gpu)\b", re.IGNORECASE)
_UNITS = re.compile(r"#\s*(YYYYMMDD|HH:MM:SS|Idx)\b", re.IGNORECASE)
_CELLS = re.compile(r"[\s,]+")


def begins_monitor(text: str) -> bool:
    """Whether this line holds the names of dmon's or pmon's columns."""
    return text.startswith("#") and _NAMES.match(text) is not None and "gpu" in text.lower()


class MonitorBlock:
    """Reads the ticks below the names of the columns."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self._names: list[str] = []

    def feed(self, line: int, text: str) -> Iterable[Found] | None:
        if begins_monitor(text):
            self._names = _CELLS.split(text.lstrip("# ").strip().lower())
            return ()
        if _UNITS.match(text) or not text.strip():
            return ()
        cells = _CELLS.split(text.strip().rstrip(","))
        if text.startswith(("#", "+", "=")) or not cells[0][:1].isdigit():
            return None
        is_process = "pid" in self._names
        # a process's name may hold spaces, and is not read; so may the word for its type
        if len(cells) < len(self._names) - is_process or (len(cells) > len(self._names) and not is_process):
            detail = f"{len(cells)} cells, the columns are {len(self._names)}: cut off?"
            return (self.reading.reject(line, detail, "" if is_process else text),)
        values = dict(zip(self._names, cells, strict=False))
        try:
            found = self._process(line, values) if is_process else self._gpu(line, values)
        except ValueError as error:
            return (self.reading.reject(line, error, "" if is_process else text),)
        return (found,) if found else ()

    def finish(self) -> Iterable[Found]:
        return ()

    def _gpu(self, line: int, values: dict[str, str]) -> Found:
        texts = {name: values[column] for column, name in MONITOR_NAMES.items() if column in values}
        at = read_clock(values.get("date"), values.get("time"), self.reading.zone)
        return GpuReading(line, Identity(index=_index(values)), texts, at)

    def _process(self, line: int, values: dict[str, str]) -> Found | None:
        if values["pid"] == "-":
            return None
        pid = read_whole(values["pid"])
        if pid is None:
            raise ValueError(f"pid: {values['pid']!r} is no process id")
        at = read_clock(values.get("date"), values.get("time"), self.reading.zone)
        return ProcessSighting(
            line, Identity(index=_index(values)), pid, at, memory_used=values.get("fb", ""), sm_utilization=values.get("sm", "")
        )  # fmt: skip


def _index(values: dict[str, str]) -> int:
    index = read_whole(values.get("gpu"))
    if index is None:
        raise ValueError(f"gpu: {values.get('gpu', '')!r} is no index of a GPU")
    return index
