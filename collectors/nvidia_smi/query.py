"""CSV of `--query-gpu`, `--query-compute-apps` and `--query-accounted-apps`, and that of AMD's tools: columns by their names."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from collectors.nvidia_smi.blocks import Reading
from collectors.nvidia_smi.records import AMD_SMI, NVIDIA_SMI, ROCM_SMI, Found, GpuReading, Identity, Note, ProcessSighting
from collectors.nvidia_smi.schema import AMD_COLUMNS, PROCESS_NAMES, QUERY_NAMES, READINGS, ROCM_NAMES, ROCM_UNITS
from collectors.nvidia_smi.times import read_instant
from collectors.nvidia_smi.values import missing_reason, read_text, read_whole

GPUS, PROCESSES, ACCOUNTED, OTHER = "gpus", "processes", "accounted", "other"
DELIMITERS = ",;\t"
#: a row of all 240 fields is shorter
ROW_LIMIT = 1 << 16
#: columns of a time that scripts write themselves, where the tool's own is not asked for
_TIME_NAMES = ("time", "datetime", "date_time", "date", "timestamp_utc", "time_utc", "sampled_utc", "utc")
_NAME = re.compile(r"[a-z][\w. ()%/:-]{0,80}(\[[^\]]{0,20}\])?")
#: what a first pass needs of a row
_SURVEYED = frozenset({"timestamp", "hostname", "uuid", "pci.bus_id", "index", "name", "pid", "time"})
_PCI = re.compile(r"(?:0x)?(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{1,2}):([0-9a-fA-F]{1,2})\.([0-7])")


@dataclass(frozen=True)
class Header:
    """The columns of a CSV text: position → field, the units in brackets, and what kind of query it is of.

    `unread` are the names that fill nothing.
    """

    delimiter: str
    count: int
    fields: tuple[tuple[int, str], ...]
    units: Mapping[str, str]
    kind: str
    unread: tuple[str, ...]
    tool: str = NVIDIA_SMI


def read_header(text: str) -> Header | None:
    """The header that a line is; None for any other line."""
    return _read_header(text) if len(text) <= ROW_LIMIT else None


@lru_cache(maxsize=64)
def _read_header(text: str) -> Header | None:
    delimiter = max(DELIMITERS, key=text.count)
    cells = [cell.strip().strip('"').strip().lower() for cell in text.lstrip("\ufeff# ").split(delimiter)]
    if len(cells) < 2 or not all(_NAME.fullmatch(cell) for cell in cells):
        return None
    if "device" in cells and any(cell.rstrip(":") in ROCM_NAMES for cell in cells):
        return _header(delimiter, [(cell.rstrip(":"), "") for cell in cells], {**ROCM_NAMES, "device": "index"}, GPUS, ROCM_SMI)
    if "gpu" in cells and {"gfx", "vram_used"} & set(cells):
        return _header(delimiter, [(cell, "") for cell in cells], AMD_COLUMNS, GPUS, AMD_SMI)
    names = []
    for cell in cells:
        name, _, unit = cell.partition("[")
        names.append((name.strip(), unit.rstrip("] ")))
    plain = {name for name, _ in names if "." not in name}
    known = sum(name in QUERY_NAMES or name in PROCESS_NAMES for name, _ in names)
    return _of_query(delimiter, names) if known >= 2 and known * 3 >= len(plain) else None


def header_of_fields(fields: Sequence[str]) -> Header:
    """The header that a text without one has, from the fields that were asked for."""
    return _of_query(",", [(name.strip().lower(), "") for name in fields])


def _of_query(delimiter: str, names: Sequence[tuple[str, str]]) -> Header:
    plain = [name for name, _ in names]
    if "pid" in plain:
        kind = ACCOUNTED if {"max_memory_usage", "mem_utilization", "mem_util"} & set(plain) else PROCESSES
        return _header(delimiter, names, PROCESS_NAMES, kind, NVIDIA_SMI)
    kind = OTHER if any(name.startswith("retired_pages.address") for name in plain) else GPUS
    return _header(delimiter, names, QUERY_NAMES, kind, NVIDIA_SMI)


def _header(delimiter: str, names: Sequence[tuple[str, str]], known: Mapping[str, str], kind: str, tool: str) -> Header:
    fields = [known.get(name, "") for name, _ in names]
    if "timestamp" not in fields and kind == GPUS:
        own = next((at for at, (name, _) in enumerate(names) if name in _TIME_NAMES), None)
        if own is not None:
            fields[own] = "timestamp"
    units = {field: unit for field, (_, unit) in zip(fields, names, strict=True) if field and unit}
    return Header(
        delimiter,
        len(names),
        tuple((position, field) for position, field in enumerate(fields) if field),
        {**ROCM_UNITS, **units} if tool == ROCM_SMI else units,
        kind,
        tuple(name for field, (name, _) in zip(fields, names, strict=True) if not field),
        tool,
    )


class QueryBlock:
    """The rows below a header, or from the first line on where the fields are told."""

    def __init__(self, reading: Reading, header: Header) -> None:
        self.reading, self.header = reading, header
        names = {name for _, name in header.fields}
        self._fields = header.fields
        if reading.is_survey:
            first = next((name for _, name in header.fields if name in READINGS), None)
            self._fields = tuple(item for item in header.fields if item[1] in _SURVEYED or item[1] == first)
        self._process_name = next((at for at, name in header.fields if name == "process_name"), None)
        self._is_named = bool(names & {"uuid", "pci.bus_id", "index"})
        self._lands = header.kind != OTHER and (header.kind != GPUS or bool(names & READINGS) or "name" in names)

    def feed(self, line: int, text: str) -> Iterable[Found] | None:
        header = self.header
        if not text.strip():
            return ()
        if text.startswith(("#", "+-", "===")):
            return None
        if not self._lands:
            return (Note("rows of a query without a column that lands"),)
        cells = self._split(text[:ROW_LIMIT])
        if len(cells) != header.count:
            return (
                self.reading.reject(line, f"{len(cells)} cells, the header has {header.count}: cut off?", self._shown(cells)),
            )
        texts: dict[str, str] = {}
        for position, name in self._fields:
            cell = cells[position].strip()
            # a field that was asked for twice: the one that says something
            if name not in texts or missing_reason(texts[name]):
                texts[name] = cell
        try:
            return (self._row(line, texts),)
        except ValueError as error:
            return (self.reading.reject(line, error, self._shown(cells)),)

    def finish(self) -> Iterable[Found]:
        unread = sorted(set(self.header.unread))
        if unread and self._lands:
            yield Note(f"fields that fill no column, left out: {some(unread, 12)}")

    def _split(self, text: str) -> list[str]:
        """The cells; of a process's name that holds commas, which nvidia-smi does not quote, one."""
        header = self.header
        cells = text.split(header.delimiter) if '"' not in text else _split_quoted(text, header.delimiter)
        if len(cells) == header.count + 1 and not cells[-1].strip():
            cells.pop()
        surplus = len(cells) - header.count
        if surplus > 0 and self._process_name is not None:
            cells[self._process_name : self._process_name + surplus + 1] = [""]
        return cells

    def _shown(self, cells: Sequence[str]) -> str:
        """What of a row may be kept in the quarantine: a process's name may be a command line."""
        if self.header.kind != GPUS or (self.header.unread and len(cells) != self.header.count):
            return ""
        return ", ".join(cells[position].strip() for position, _ in self.header.fields if position < len(cells))

    def _row(self, line: int, texts: Mapping[str, str]) -> Found:
        header = self.header
        identity = identity_of(texts)
        if header.tool == ROCM_SMI:
            identity = Identity(identity.vendor_id, identity.pci, read_whole(texts.get("index", "").removeprefix("card")))
        clock = read_text(texts, "timestamp")
        if clock is None and "timestamp" in texts:
            raise ValueError("no timestamp in this row")
        at = read_instant(clock, self.reading.zone) if clock else None
        node = read_text(texts, "hostname")
        if header.kind == GPUS:
            return GpuReading(line, identity, texts, at, node, header.units, is_named=self._is_named, tool=header.tool)
        pid = read_whole(read_text(texts, "pid"))
        if pid is None:
            raise ValueError(f"pid: {texts.get('pid', '')!r} is no process id")
        if header.kind == ACCOUNTED:
            # NVML gives 0 ms for a process that still runs; the figures of the others tell of the past
            if not re.fullmatch(r"0(\s*ms)?", texts.get("time", "")):
                return Note("processes that had ended when they were accounted for: no evidence of who holds a GPU")
            return ProcessSighting(line, identity, pid, at, node, is_named=self._is_named)
        unit = header.units.get("used_gpu_memory", "MiB")
        memory = texts.get("used_gpu_memory", "")
        return ProcessSighting(line, identity, pid, at, node, None, memory, unit, is_named=self._is_named)


def _split_quoted(text: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([text], delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:
        return text.split(delimiter)


def some(names: Sequence[str], limit: int) -> str:
    """The first names, and how many more there are."""
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")


def identity_of(texts: Mapping[str, str]) -> Identity:
    """How a row names its GPU. Raises ValueError where the column of the UUID or of the address holds something else."""
    return _identity(texts.get("uuid", ""), texts.get("pci.bus_id", ""), texts.get("index", ""))


@lru_cache(maxsize=4096)
def _identity(uuid: str, pci: str, index: str) -> Identity:
    if not missing_reason(uuid) and (len(uuid) > 100 or re.search(r"[\s%]|^\d{1,7}$", uuid)):
        raise ValueError(f"uuid: {uuid[:60]!r} is no UUID of a GPU; are the columns swapped?")
    return Identity(None if missing_reason(uuid) else uuid, None if missing_reason(pci) else normal_pci(pci), read_whole(index))


@lru_cache(maxsize=4096)
def normal_pci(text: str) -> str:
    """A PCI address as NVML prints it, `00000000:01:00.0`; raises ValueError for what is none."""
    match = _PCI.fullmatch(text.strip())
    if not match:
        raise ValueError(f"pci.bus_id: {text.strip()[:60]!r} is no PCI address; are the columns swapped?")
    domain, bus, device, function = match.groups()
    return f"{domain or '0':0>8}:{bus:0>2}:{device:0>2}.{function}".upper()
