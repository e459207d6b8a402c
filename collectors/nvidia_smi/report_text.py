"""`nvidia-smi -q`, the plain text: sections by their indentation, one log after the other in a loop."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime

from collectors.nvidia_smi.blocks import Reading
from collectors.nvidia_smi.query import identity_of, some
from collectors.nvidia_smi.records import Found, GpuReading, Identity, MigDevice, Note, ProcessSighting
from collectors.nvidia_smi.schema import TEXT_PATHS
from collectors.nvidia_smi.times import read_instant
from collectors.nvidia_smi.values import read_whole

_BEGIN = re.compile(r"\s*=+\s*NVSMI LOG\s*=+\s*")
#: what a log begins with where its first line was not copied
_STAMP = re.compile(r"\s*Timestamp\s{2,40}: [A-Z][a-z]{2} [A-Z][a-z]{2} .{1,40}")
_GPU = re.compile(r"\s*GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*")
#: a log of a hundred GPUs has fewer lines
_LINES = 200_000
_PROCESS_KEYS = {"process id": "pid", "gpu instance id": "gi", "used gpu memory": "memory"}
_MIG_PATHS = {
    "index": "index",
    "gpu instance id": "gi",
    "compute instance id": "ci",
    "mig uuid": "uuid",
    "device attributes/shared/multiprocessor count": "multiprocessors",
    "fb memory usage/used": "memory_used",
    "shared fb memory usage/used": "memory_used",
    "fb memory usage/total": "memory_total",
    "shared fb memory usage/total": "memory_total",
}


def begins_text_report(text: str) -> bool:
    """Whether this is the first line of a log."""
    return ("NVSMI LOG" in text and _BEGIN.fullmatch(text) is not None) or _STAMP.fullmatch(text) is not None


class TextReportBlock:
    """Reads one log after the other, GPU by GPU."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self._head: dict[str, str] = {}
        self._gpus: list[_Gpu] = []
        self._first = 0
        self._is_noted = False

    def feed(self, line: int, text: str) -> Iterable[Found] | None:
        # the stamp stands in the head of a log, or it is the first line that was copied of it
        if begins_text_report(text) and (self._gpus or not self._first or not _STAMP.fullmatch(text)):
            complete = list(self.finish())
            name, _, value = text.partition(":")
            self._head, self._first = {name.strip().lower(): value.strip()}, line
            return complete
        if line - self._first > _LINES:
            return None
        found = _GPU.fullmatch(text)
        if found:
            self._gpus.append(_Gpu(line, found[1]))
            return ()
        name, colon, value = text.partition(":")
        indent, name = len(text) - len(text.lstrip()), name.strip().lower()
        is_pair = bool(name and colon) and value[:1] in ("", " ")
        if name and not is_pair and (colon or not indent):
            return None
        if is_pair and not self._gpus:
            self._head[name] = value.strip()
        elif is_pair:
            self._gpus[-1].add(line, indent, name, value.strip())
        elif name and self._gpus:
            self._gpus[-1].open(indent, name)
        return ()

    def finish(self) -> Iterable[Found]:
        gpus, self._gpus = self._gpus, []
        if not gpus:
            return
        try:
            clock = self._head.get("timestamp", "")
            at = read_instant(clock, self.reading.zone) if clock else None
        except ValueError as error:
            yield self.reading.reject(self._first, error)
            return
        if not self._is_noted and gpus[0].unread:
            self._is_noted = True
            yield Note(f"fields that fill no column, left out: {some(sorted(gpus[0].unread), 12)}")
        whole = read_whole(self._head.get("attached gpus")) == len(gpus)
        for position, gpu in enumerate(gpus):
            try:
                yield from gpu.read(position if whole else None, at, self._head.get("driver version", ""))
            except ValueError as error:
                yield self.reading.reject(gpu.line, error)


class _Gpu:
    """The lines of one GPU: path of sections → text."""

    def __init__(self, line: int, pci: str) -> None:
        self.line = line
        self.texts = {"pci.bus_id": pci}
        self.unread: set[str] = set()
        self._path: list[tuple[int, str]] = []
        self._mig: list[dict[str, str]] = []
        self._processes: list[dict[str, str]] = []

    def open(self, indent: int, name: str) -> None:
        while self._path and self._path[-1][0] >= indent:
            self._path.pop()
        self._path.append((indent, name))
        if name == "mig device":
            self._mig.append({})

    def add(self, line: int, indent: int, key: str, text: str) -> None:
        self.open(indent, key)
        names = [name for _, name in self._path]
        if names[0] == "mig device" and self._mig:
            found = _MIG_PATHS.get("/".join(names[1:]))
            if found:
                self._mig[-1][found] = text
        elif names[0] in ("processes", "compute processes"):
            self._add_process(line, key, text)
        else:
            path = "/".join(names)
            name = TEXT_PATHS.get(path)
            if name:
                self.texts.setdefault(name, text)
            elif text:
                self.unread.add(path)

    def _add_process(self, line: int, key: str, text: str) -> None:
        name = _PROCESS_KEYS.get(key)
        if name is None:
            return
        # the numbers of the instance stand before the process's own, where they are printed at all
        if not self._processes or (name in ("gi", "pid") and "pid" in self._processes[-1]):
            self._processes.append({"line": str(line)})
        self._processes[-1][name] = text

    def read(self, index: int | None, at: datetime | None, driver: str) -> Iterator[Found]:
        texts = {**self.texts, **({"driver_version": driver} if driver else {})}
        identity = replace(identity_of(texts), index=index)
        yield GpuReading(self.line, identity, texts, at, mig=tuple(_mig(found) for found in self._mig), shows_mig=True)
        for process in self._processes:
            pid = read_whole(process.get("pid"))
            if pid is not None:
                yield _sighting(process, identity, pid, at)


def _sighting(process: dict[str, str], identity: Identity, pid: int, at: datetime | None) -> ProcessSighting:
    gi = read_whole(process.get("gi"))
    return ProcessSighting(int(process["line"]), identity, pid, at, gi=gi, memory_used=process.get("memory", ""))


def _mig(found: dict[str, str]) -> MigDevice:
    return MigDevice(
        index=read_whole(found.get("index")),
        gi=read_whole(found.get("gi")),
        ci=read_whole(found.get("ci")),
        uuid=found.get("uuid"),
        multiprocessors=read_whole(found.get("multiprocessors")),
        memory_used=found.get("memory_used", ""),
        memory_total=found.get("memory_total", ""),
    )
