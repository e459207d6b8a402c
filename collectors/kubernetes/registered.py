"""GPUs that a device plugin writes into a node's annotations, since the resource's number says too little (HAMi, Volcano)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from collectors.kubernetes.fields import as_count, as_number, as_text, maps
from collectors.kubernetes.schema import HAMI_REGISTER, VOLCANO_REGISTER

_UUID = re.compile(r"GPU-[0-9a-fA-F-]{8,}")


@dataclass(frozen=True)
class RegisteredGpu:
    uuid: str
    index: int | None
    memory_mib: float | None
    model: str | None


def read_registered(annotations: Mapping[str, str]) -> tuple[RegisteredGpu, ...]:
    """The node's GPUs; those of other kinds, and entries that cannot be read, are left out."""
    found: dict[str, RegisteredGpu] = {}
    for gpu in (*_hami(annotations.get(HAMI_REGISTER, "")), *_volcano(annotations.get(VOLCANO_REGISTER, ""))):
        found.setdefault(gpu.uuid, gpu)
    return tuple(found.values())


def _hami(text: str) -> Iterator[RegisteredGpu]:
    """A JSON list (a zero is left out), or `UUID,count,MiB,cores,type,numa,healthy[,index[,mode]]:` for each device."""
    if text.lstrip().startswith("["):
        try:
            entries = maps(json.loads(text))
        except (ValueError, RecursionError):
            return
        for entry in entries:
            yield from _gpu(entry.get("id"), entry.get("index", 0), entry.get("devmem"), entry.get("type"))
        return
    for part in text.split(":"):
        fields = [field.strip() for field in part.split(",")]
        if len(fields) >= 7:
            yield from _gpu(fields[0], fields[7] if len(fields) > 7 else None, fields[2], fields[4])


def _volcano(text: str) -> Iterator[RegisteredGpu]:
    """`UUID,count,MiB,type,healthy…:` for each device."""
    for part in text.split(":"):
        fields = [field.strip() for field in part.split(",")]
        if len(fields) >= 5:
            yield from _gpu(fields[0], None, fields[2], fields[3])


def _gpu(uuid: Any, index: Any, memory: Any, model: Any) -> Iterator[RegisteredGpu]:
    text = as_text(uuid) or ""
    if _UUID.fullmatch(text):
        # HAMi puts the vendor before a name that may begin with it: NVIDIA-NVIDIA L4
        name = (as_text(model) or "").removeprefix("NVIDIA-") or None
        yield RegisteredGpu(text, as_count(index), as_number(memory) or None, name)
