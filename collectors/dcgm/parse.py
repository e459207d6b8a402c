"""One scrape of dcgm-exporter → a reading per GPU or MIG instance, with who the labels say held it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from collectors.command import SourceFailedError
from collectors.dcgm.labels import SLURM_JOB_LABEL, Holder, Nodes, Slot, holder_of, is_no_node, is_of_other_entity, slot_of
from collectors.dcgm.schema import CARD_LEVEL, GPU_UTIL, PER_POD_FIELDS, XID, XID_COUNT, field_name
from collectors.files import decode
from collectors.metrics.text import Sample, read_samples
from warehouse.landing.conform import MALFORMED, Reject

DUPLICATE = "duplicate"
#: NVML's "GPU has fallen off the bus": of several XIDs at once it is the one that decides
LOST_XID = 79
#: a card's utilisation in percent, which parts of it given in whole numbers may exceed by rounding
FULL = 100.0


class OptionMissingError(SourceFailedError):
    """The text leaves out something that an option can say; the message names the option."""


@dataclass(frozen=True)
class Reading:
    """One slot at one instant: DCGM field → value as exported, and the labels that describe the device."""

    slot: Slot
    at: datetime
    node: str
    file: str
    line: int
    values: Mapping[str, float]
    labels: Mapping[str, str]
    holders: frozenset[Holder]


@dataclass
class Scrapes:
    """What one or more files held. `others` are the fields of links, switches and CPUs; `shared_jobs` the cards of which
    every instance carries the same jobs."""

    readings: list[Reading] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    fields: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)
    shared_jobs: set[str] = field(default_factory=set)
    repeated: int = 0
    split: int = 0

    def extend(self, other: Scrapes) -> None:
        self.readings += other.readings
        self.rejects += other.rejects
        self.fields |= other.fields
        self.others |= other.others
        self.shared_jobs |= other.shared_jobs
        self.repeated += other.repeated
        self.split += other.split


def parse_scrape(data: bytes, file: str, *, at: datetime | None = None, nodes: Nodes | None = None) -> Scrapes:
    """The readings in one exporter text. A line's own time stands; lines without one were read `at`.

    Raises SourceFailedError where the text holds no DCGM sample, OptionMissingError where time or node is not known.
    """
    samples, rejects = read_samples(decode(data, file), file)
    if not any(field_name(sample.name) for sample in samples):
        found = f"{len(samples)} samples of other metrics" if samples else "no metrics text"
        raise SourceFailedError(f"{file}: no DCGM field in it ({found}); is it dcgm-exporter's /metrics, and does it see a GPU?")
    if at is None and any(sample.at is None for sample in samples if field_name(sample.name)):
        raise OptionMissingError(
            f"{file}: a scrape does not carry its time; give it with --at 2026-11-01T00:00:00Z (once per file, in their order), "
            "or name the file by it: 2026-11-01T00-00-00Z.prom"
        )
    scrapes = to_readings(samples, file, at=at, nodes=nodes)
    scrapes.rejects[:0] = rejects
    return scrapes


def to_readings(samples: Iterable[Sample], file: str, *, at: datetime | None = None, nodes: Nodes | None = None) -> Scrapes:
    """The readings in the samples of one scrape; those of other programs are passed over.

    Raises OptionMissingError where the node of one is not known.
    """
    nodes = nodes or Nodes()
    builders: dict[tuple[Slot, datetime], _Builder] = {}
    scrapes = Scrapes()
    # a reader of text gives one mapping for all the series of a slot; what it says is worked out once
    read: dict[int, _Labels] = {}
    for sample in samples:
        name = field_name(sample.name)
        if name is None:
            continue
        labels = read.get(id(sample.labels)) or read.setdefault(id(sample.labels), _Labels.of(sample.labels, nodes, file))
        if labels.is_of_other_entity:
            scrapes.others.add(name)
            continue
        scrapes.fields.add(name)
        if labels.node is None:
            raise OptionMissingError(f"{file}:{sample.line}: no label names the node; give it with --node NAME")
        if labels.slot is None:
            detail = "neither a GPU UUID nor a PCI address in the labels: no telling which device this is"
            scrapes.rejects.append(Reject(file, sample.line, MALFORMED, detail, f"{sample.name}{dict(sample.labels)}"))
            continue
        instant = sample.at or at
        assert instant is not None
        key = labels.slot, instant
        builder = builders.get(key)
        if builder is None:
            builder = builders[key] = _Builder(labels.slot, instant, labels.node, file, sample.line)
        reject = builder.add(name, sample, labels)
        if reject:
            scrapes.rejects.append(reject)
    is_split = any(builder.differs() for builder in builders.values())
    _spread_card_values(builders)
    scrapes.shared_jobs = _drop_card_jobs(builders)
    scrapes.readings = [builder.finish(is_split) for builder in builders.values()]
    scrapes.repeated = sum(builder.repeated for builder in builders.values())
    scrapes.split = sum(builder.split for builder in builders.values())
    return scrapes


@dataclass(frozen=True)
class _Labels:
    """What a set of labels says. It holds the mapping, so that no other one gets its id."""

    mapping: Mapping[str, str]
    identity: frozenset[tuple[str, str]]
    is_of_other_entity: bool
    node: str | None
    slot: Slot | None
    holder: Holder | None

    @classmethod
    def of(cls, mapping: Mapping[str, str], nodes: Nodes, file: str) -> _Labels:
        node = nodes.find(mapping, file)
        slot = slot_of(mapping, node) if node is not None else None
        return cls(mapping, frozenset(mapping.items()), is_of_other_entity(mapping), node, slot, holder_of(mapping))


class _Builder:
    """Collects the series of one slot at one instant."""

    def __init__(self, slot: Slot, at: datetime, node: str, file: str, line: int) -> None:
        self.slot, self.at, self.node, self.file, self.line = slot, at, node, file, line
        self.labels: dict[str, str] = {}
        self.holders: set[Holder] = set()
        self.values: dict[str, list[float]] = {}
        self.repeated, self.split = 0, 0
        self._series: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        self._label_sets: set[frozenset[tuple[str, str]]] = set()

    def add(self, name: str, sample: Sample, labels: _Labels) -> Reject | None:
        """Take the series in; a reject where the very same series came with another value."""
        series = (name, labels.identity)
        known = self._series.get(series)
        if known is not None:
            if known == sample.value or (math.isnan(known) and math.isnan(sample.value)):
                self.repeated += 1
                return None
            detail = f"{sample.name} of this slot came before as {known:g}: two scrapes in one file? give them one by one"
            return Reject(self.file, sample.line, DUPLICATE, detail, f"{sample.name}{dict(sample.labels)} {sample.value!r}")
        self._series[series] = sample.value
        if labels.identity not in self._label_sets:
            self._label_sets.add(labels.identity)
            for label, value in sample.labels.items():
                if value.strip():
                    self.labels.setdefault(label, value.strip())
            if labels.holder:
                self.holders.add(labels.holder)
        if name == XID_COUNT:
            self._add_xid(sample)
        else:
            self.values.setdefault(name, []).append(sample.value)
        return None

    def differs(self) -> bool:
        """Whether the holders' series of a field that may be given per pod say different things, as parts do.

        So do those of which there are more than of any other field: an exporter that copies a reading copies them all.
        """
        counts = {name: len(values) for name, values in self.values.items()}
        others = max((count for name, count in counts.items() if name not in PER_POD_FIELDS), default=0)
        for name in PER_POD_FIELDS:
            values = [value for value in self.values.get(name, ()) if not math.isnan(value)]
            if len(values) > 1 and (len(set(values)) > 1 or (0 < others < len(values))):
                return True
        return False

    def finish(self, is_split: bool) -> Reading:
        values: dict[str, float] = {}
        for name, found in self.values.items():
            values[name] = found[0]
            if len(found) > 1 and is_split and name in PER_POD_FIELDS:
                whole = sum(value for value in found if not math.isnan(value))
                values[name] = min(whole, FULL) if name == GPU_UTIL else whole
                self.split += 1
            else:
                # the device's reading, copied to each pod that shares it: one fact
                self.repeated += len(found) - 1
        lately = values.pop(XID_COUNT, None)
        if lately is not None:
            values.setdefault(XID, lately)
        return Reading(self.slot, self.at, self.node, self.file, self.line, values, self.labels, frozenset(self.holders))

    def _add_xid(self, sample: Sample) -> None:
        xid = sample.labels.get("xid", "")
        if sample.value > 0 and xid.isdecimal() and len(xid) < 6:
            known = self.values.get(XID_COUNT, [0.0])[0]
            self.values[XID_COUNT] = [LOST_XID if LOST_XID in (int(xid), known) else int(xid)]


def _instances(builders: Mapping[tuple[Slot, datetime], _Builder]) -> dict[tuple[str, datetime], list[_Builder]]:
    """The MIG instances of each card at each instant."""
    instances: dict[tuple[str, datetime], list[_Builder]] = {}
    for (slot, at), builder in builders.items():
        if slot.slot_uuid is not None:
            instances.setdefault((slot.gpu_uuid, at), []).append(builder)
    return instances


def _spread_card_values(builders: dict[tuple[Slot, datetime], _Builder]) -> None:
    """Where an exporter gives a card's own series beside those of its MIG instances, put them on each instance.

    That is how other exporters write them, and the warehouse counts them once per card; a whole-card reading beside
    the instances' would speak for all of them a second time.
    """
    for (gpu_uuid, at), parts in _instances(builders).items():
        card = builders.pop((Slot(gpu_uuid, None), at), None)
        for part in parts if card else ():
            assert card is not None
            for name, values in card.values.items():
                if name in CARD_LEVEL:
                    part.values.setdefault(name, values[:1])
            for label, text in card.labels.items():
                part.labels.setdefault(label, text)


def _drop_card_jobs(builders: Mapping[tuple[Slot, datetime], _Builder]) -> set[str]:
    """Take Slurm's jobs off instances that all carry the same ones; return their cards.

    The exporter's mapping file knew cards only (NVIDIA/dcgm-exporter#369), so a job on one instance was written on all of
    its card's: that is no evidence of which instance it holds.
    """
    cards: set[str] = set()
    for (gpu_uuid, _), parts in _instances(builders).items():
        jobs = [frozenset(holder for holder in part.holders if _is_slurm(holder, part.labels)) for part in parts]
        if len(parts) > 1 and jobs[0] and len(set(jobs)) == 1:
            cards.add(gpu_uuid)
            for part in parts:
                part.holders -= jobs[0]
    return cards


def _is_slurm(holder: Holder, labels: Mapping[str, str]) -> bool:
    return SLURM_JOB_LABEL in labels and holder.job_id is not None and holder.pod is None


def nodes_in_doubt(readings: Iterable[Reading]) -> list[str]:
    """Node names that look like an exporter's pod or container."""
    return sorted({reading.node for reading in readings if is_no_node(reading.node)})
