"""`sonar ps` as JSON: the `sample` documents of 0.13 and later, and the `ps` documents of 0.13, into snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from collectors.slurm.json_values import as_text, dig
from collectors.sonar.schema import GPUINFO, KIBIBYTE, SAMPLE_GPU
from collectors.sonar.snapshots import Card, Process, Snapshot, Use
from collectors.sonar.text import MOST_CARDS, card, uses_of

#: why a failing card has no readings
FAILING = "gap"


def read_sample(attributes: Mapping[str, Any], line: int) -> Snapshot:
    """A `data.attributes` of type sample. Raises ValueError where it is none."""
    snapshot = Snapshot(
        _name(attributes, "node"), _time(attributes.get("time")), line, as_text(attributes.get("cluster")) or None
    )
    cards = dig(attributes, "system", "gpus")
    if isinstance(cards, list):
        found = [_card(item, place) for place, item in enumerate(cards)]
        snapshot.cards = {item.index: item for item in found}
    for job in attributes.get("jobs") or []:
        epoch = _whole(job.get("epoch"))
        for process in job.get("processes") or []:
            snapshot.add(
                Process(
                    job=_whole(job.get("job")),
                    pid=_whole(process.get("pid")),
                    parent=_whole(process.get("ppid")),
                    user=as_text(job.get("user")),
                    command=as_text(process.get("cmd")),
                    epoch=epoch,
                    is_batch=epoch == 0,
                    uses=dict(_use(item) for item in process.get("gpus") or []),
                )
            )
    return snapshot


def read_ps(document: Mapping[str, Any], line: int, is_batch: bool) -> Snapshot:
    """The document of 0.13: an envelope with the CSV's names, `samples` without them. Raises ValueError where it is none."""
    snapshot = Snapshot(_name(document, "host"), _time(document.get("time")), line)
    cards = document.get("gpuinfo")
    if isinstance(cards, list):
        snapshot.cards = {place: card(item, GPUINFO, place, None) for place, item in enumerate(cards[:MOST_CARDS])}
    for sample in document["samples"]:
        fields = {str(name): as_text(value) for name, value in sample.items()}
        snapshot.has_failed = snapshot.has_failed or fields.get("gpufail", "0") not in ("", "0")
        numbers = {name: _whole(sample.get(name)) for name in ("job", "pid", "ppid")}
        snapshot.add(
            Process(numbers["job"], numbers["pid"], numbers["ppid"], fields.get("user", ""), fields.get("cmd", ""),
                    is_batch=is_batch, uses=uses_of(fields))
        )  # fmt: skip
    return snapshot


def _card(item: Mapping[str, Any], place: int) -> Card:
    index = _whole(item.get("index"))
    if index >= MOST_CARDS or place >= MOST_CARDS:
        raise ValueError(f"{index} is no index of a card")
    found = card(item, SAMPLE_GPU, index, as_text(item.get("uuid")) or None)
    if _whole(item.get("failing")):
        return Card(index, found.uuid, {}, dict.fromkeys((field.column for field in SAMPLE_GPU.values()), FAILING))
    return found


def _use(item: Mapping[str, Any]) -> tuple[int, Use]:
    kibibytes, share = _whole(item.get("gpu_memory")), float(item.get("gpu_memory_util") or 0)
    memory = kibibytes * KIBIBYTE if kibibytes or not share else None
    return _whole(item.get("index")), Use(float(item.get("gpu_util") or 0) / 100, memory, share / 100)


def _name(values: Mapping[str, Any], key: str) -> str:
    name = as_text(values.get(key))
    if not name:
        raise ValueError(f"the document names no {key}")
    return name


def _time(value: Any) -> datetime:
    at = datetime.fromisoformat(as_text(value))
    if at.tzinfo is None:
        raise ValueError(f"{value!r} has no offset: it is no time of sonar's")
    return at.astimezone(UTC).replace(tzinfo=None)


def _whole(value: Any) -> int:
    text = as_text(value) or "0"
    if not text.isdecimal() or len(text) > 18:
        raise ValueError(f"{text[:40]!r} is no whole number")
    return int(text)
