"""AMD's tools as JSON: `rocm-smi --json`, and `amd-smi metric`, `static` and `list` with `--json`. AMD cards are GPUs too.

rocm-smi names a card `card0` and writes every value as text, the unit in the key. amd-smi gives a list of objects, or
one below `gpu_data`, with values as `{"value": 42, "unit": "%"}`; in watch mode with an epoch `timestamp`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from collectors.nvidia_smi.blocks import DOCUMENT_LIMIT, Reading
from collectors.nvidia_smi.query import normal_pci
from collectors.nvidia_smi.records import AMD_SMI, ROCM_SMI, Found, GpuReading, Identity, Note, ProcessSighting
from collectors.nvidia_smi.schema import AMD_PATHS, ROCM_NAMES, ROCM_UNITS
from collectors.nvidia_smi.times import read_instant
from collectors.nvidia_smi.values import missing_reason, read_whole

_BEGIN = re.compile(r"\s*(\{\s*$|\{\s*\"|\[\s*$|\[\s*\{)")
_SPACE = re.compile(r"[\s,]*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_CARD = re.compile(r"card(\d{1,4})")
#: temperatures in the order in which one of them stands for the GPU; cards with several dies have no edge sensor
_TEMPERATURES = ("temperature.gpu", "temperature.junction")
_DEPTH = 6


def begins_json(text: str) -> bool:
    """Whether a JSON document begins in this line."""
    return _BEGIN.match(text) is not None


class JsonBlock:
    """Gathers a document until its brackets close and reads it; the next one begins a new block."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self._lines: list[str] = []
        self._first, self._depth, self._size = 0, 0, 0

    @property
    def is_open(self) -> bool:
        """Whether a document has begun and not ended."""
        return bool(self._lines)

    def feed(self, line: int, text: str) -> Iterable[Found] | None:
        if not self._lines:
            if not begins_json(text):
                return None if text.strip() else ()
            self._first = line
        self._lines.append(text)
        bare = _STRING.sub("", text)
        self._depth += bare.count("{") + bare.count("[") - bare.count("}") - bare.count("]")
        self._size += len(text)
        if self._size > DOCUMENT_LIMIT:
            self._lines, self._depth, self._size = [], 0, 0
            return (self.reading.reject(self._first, f"a JSON document of more than {DOCUMENT_LIMIT >> 20} MiB"),)
        return tuple(self.finish()) if self._depth <= 0 else ()

    def finish(self) -> Iterable[Found]:
        text, self._lines = "\n".join(self._lines), []
        self._depth, self._size = 0, 0
        decoder, start, end = json.JSONDecoder(), 0, len(text.rstrip())
        while start < end:
            try:
                document, start = decoder.raw_decode(text, _begin_at(text, start))
            except (ValueError, RecursionError) as error:
                yield self.reading.reject(self._first, f"no JSON document ({error}); cut off?")
                return
            found = list(_read_document(document, self.reading, self._first))
            yield from found
            if not found:
                yield self.reading.reject(self._first, "a JSON document, but none of rocm-smi or amd-smi")


def _begin_at(text: str, start: int) -> int:
    match = _SPACE.match(text, start)
    return match.end() if match else start


def _read_document(document: Any, reading: Reading, line: int) -> Iterator[Found]:
    if isinstance(document, dict):
        cards = {name: card for name, card in document.items() if _CARD.fullmatch(name) and isinstance(card, dict)}
        if cards:
            system = document.get("system")
            driver = system.get("Driver version") if isinstance(system, dict) else None
            ids = Counter(str(card.get("Unique ID")) for card in cards.values())
            for name, card in cards.items():
                # the partitions of a card repeat its id: each is known by its address
                named = card if ids[str(card.get("Unique ID"))] == 1 else {**card, "Unique ID": "N/A"}
                yield from _guarded(reading, line, _rocm_card(name, named, driver, line))
            return
        document = document.get("gpu_data")
    for entry in document if isinstance(document, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("gpu"), int | str):
            yield from _guarded(reading, line, _amd_gpu(entry, reading, line))


def _guarded(reading: Reading, line: int, found: Iterator[Found]) -> Iterator[Found]:
    try:
        yield from found
    except ValueError as error:
        yield reading.reject(line, error)


def _rocm_card(name: str, card: Mapping[str, Any], driver: Any, line: int) -> Iterator[Found]:
    texts: dict[str, str] = {}
    for key, value in card.items():
        field = ROCM_NAMES.get(key.strip().rstrip(":").lower())
        if field and (field not in texts or missing_reason(texts[field])):
            texts[field] = str(value)
    model = texts.pop("model_number", "")
    if missing_reason(texts.get("name", "")) and not model.startswith("0x"):
        texts["name"] = model
    if driver:
        texts["driver_version"] = str(driver)
    match = _CARD.fullmatch(name)
    yield _reading(texts, ROCM_UNITS, int(match[1]) if match else None, None, ROCM_SMI, line)


def _amd_gpu(entry: Mapping[str, Any], reading: Reading, line: int) -> Iterator[Found]:
    texts: dict[str, str] = {}
    units: dict[str, str] = {}
    for path, text, unit in _leaves(entry):
        field = AMD_PATHS.get(path)
        if field and (field not in texts or missing_reason(texts[field])):
            texts[field] = text
            if unit:
                units[field] = unit
    index = read_whole(str(entry["gpu"]))
    told = entry.get("timestamp")
    at = read_instant(str(told), reading.zone) if told not in (None, "N/A") else None
    if texts:
        yield _reading(texts, units, index, at, AMD_SMI, line)
    processes = entry.get("process_list")
    for process in processes if isinstance(processes, list) else []:
        told = process.get("process_info", process) if isinstance(process, dict) else None
        pid = read_whole(str(told.get("pid"))) if isinstance(told, dict) else None
        if isinstance(told, dict) and pid is not None:
            usage = told.get("memory_usage")
            memory, unit = _plain(usage.get("vram_mem") if isinstance(usage, dict) else told.get("vram_mem"))
            yield ProcessSighting(line, Identity(index=index), pid, at, memory_used=memory, memory_unit=unit or "B", tool=AMD_SMI)
    if not texts and isinstance(processes, list):
        yield Note("lists of processes without a GPU's reading")


def _reading(
    texts: dict[str, str], units: Mapping[str, str], index: int | None, at: datetime | None, tool: str, line: int
) -> GpuReading:
    told = next((texts[name] for name in _TEMPERATURES if name in texts and not missing_reason(texts[name])), None)
    texts.pop("temperature.junction", None)
    if told is not None:
        texts["temperature.gpu"] = told
    unique, pci = texts.get("uuid", ""), texts.get("pci.bus_id", "")
    identity = Identity(
        None if missing_reason(unique) or unique in ("0", "0x0") else unique,
        None if missing_reason(pci) else normal_pci(pci),
        index,
    )
    return GpuReading(line, identity, texts, at, units=units, tool=tool)


def _leaves(entry: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """(path, text, unit) of every value that is none of a list."""
    stack: list[tuple[str, Any]] = [("", entry)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, dict) and "value" not in value:
            if path.count("/") < _DEPTH:
                stack += [(f"{path}/{key}".lstrip("/"), below) for key, below in value.items()]
        elif isinstance(value, dict | str | int | float) and not isinstance(value, bool):
            yield path, *_plain(value)


def _plain(value: Any) -> tuple[str, str]:
    if isinstance(value, dict):
        return str(value.get("value", "")), str(value.get("unit", ""))
    return ("" if value is None else str(value)), ""
