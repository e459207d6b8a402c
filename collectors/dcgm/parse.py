"""One scrape of dcgm-exporter → a reading per GPU or MIG instance, with who the labels say held it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from collectors.command import SourceFailedError
from collectors.dcgm.schema import CARD_LEVEL, XID, XID_COUNT, field_name
from collectors.files import decode
from collectors.metrics.text import Sample, read_samples
from warehouse.conform import MALFORMED, Reject

DUPLICATE = "duplicate"
#: NVML's "GPU has fallen off the bus": of several XIDs at once it is the one that decides
LOST_XID = 79

#: where labels name the node, best first; `Hostname` is the node only if the exporter was told its node's name
NODE_LABELS = ("node", "kubernetes_node", "Hostname", "hostname", "instance")
#: a pod of the exporter, or a container's id: what `Hostname` says where the exporter does not know its node
_EXPORTER_POD = re.compile(r"(.+-)?dcgm-exporter-[a-z0-9]+(-[a-z0-9]+)?")
_CONTAINER_ID = re.compile(r"[0-9a-f]{12}")
_LOOPBACK = re.compile(r"^(localhost|127\.[\d.]+|\[?::1\]?|0\.0\.0\.0)$")
SLOT_LABELS = ("GPU_I_UUID", "MIG_UUID", "mig_uuid", "slot_uuid")
#: ids, not names; the exported ones are the workload's where the scrape gave the target labels of its own
POD_ID_LABELS = ("exported_pod_uid", "pod_uid", "exported_uid", "uid")
SLURM_JOB_LABEL = "hpc_job"


class OptionMissingError(SourceFailedError):
    """The text leaves out something that an option can say; the message names the option."""


@dataclass(frozen=True)
class Slot:
    """What is measured: a whole GPU, or one MIG instance of it (`slot_uuid`)."""

    gpu_uuid: str
    slot_uuid: str | None


@dataclass(frozen=True)
class Holder:
    """Who the labels say uses the slot; blank labels are no evidence. `job_id` is a pod's uid or a Slurm job's id."""

    namespace: str | None
    pod: str | None
    job_id: str | None


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
    """What one or more files held."""

    readings: list[Reading] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    fields: set[str] = field(default_factory=set)
    repeated: int = 0

    def extend(self, other: Scrapes) -> None:
        self.readings += other.readings
        self.rejects += other.rejects
        self.fields |= other.fields
        self.repeated += other.repeated


def holder_of(labels: Mapping[str, str]) -> Holder | None:
    """The workload a series is labelled with; None where the labels are blank, or name the exporter itself.

    A scrape that puts its target's `pod` on every series moves the workload's to `exported_pod`; where the workload's
    is blank, the exporter's own stands alone.
    """

    def first(*names: str) -> str | None:
        return next((labels[name].strip() for name in names if labels.get(name, "").strip()), None)

    exported = "exported_pod" in labels
    pod = first("exported_pod") if exported else first("pod", "pod_name")
    namespace = first("exported_namespace") if exported else first("namespace", "pod_namespace")
    slurm_job = first(SLURM_JOB_LABEL)
    if pod and _EXPORTER_POD.fullmatch(pod):
        return Holder(None, None, slurm_job) if slurm_job else None
    job_id = first(*POD_ID_LABELS) or slurm_job
    return Holder(namespace, pod, job_id) if pod or job_id else None


def is_no_node(name: str) -> bool:
    """Whether a host name looks like an exporter's pod or container."""
    return bool(_EXPORTER_POD.fullmatch(name) or _CONTAINER_ID.fullmatch(name))


def parse_scrape(data: bytes, file: str, *, at: datetime | None = None, node: str | None = None) -> Scrapes:
    """The readings in one exporter text. A line's own time stands; lines without one were read `at`.

    Raises SourceFailedError where the text holds no DCGM sample, OptionMissingError where time or node is not known.
    """
    samples, rejects = read_samples(decode(data, file), file)
    scrapes = to_readings(samples, file, at=at, node=node)
    scrapes.rejects[:0] = rejects
    if not scrapes.fields:
        found = f"{len(samples)} samples of other metrics" if samples else "no metrics text"
        raise SourceFailedError(f"{file}: no DCGM field in it ({found}); is it dcgm-exporter's /metrics, and does it see a GPU?")
    return scrapes


def to_readings(samples: Iterable[Sample], file: str, *, at: datetime | None = None, node: str | None = None) -> Scrapes:
    """The readings in samples that were read already; those of other programs are passed over.

    Raises OptionMissingError where time or node of one is not known.
    """
    named = [(name, sample) for sample in samples if (name := field_name(sample.name))]
    if at is None and any(sample.at is None for _, sample in named):
        raise OptionMissingError(
            f"{file}: a scrape does not carry its time; give it with --at 2026-11-01T00:00:00Z (once per file, in their order), "
            "or name the file by it: 2026-11-01T00-00-00Z.prom"
        )
    builders: dict[tuple[Slot, datetime], _Builder] = {}
    scrapes = Scrapes()
    for name, sample in named:
        scrapes.fields.add(name)
        host = node or _node(sample.labels)
        if host is None:
            raise OptionMissingError(f"{file}:{sample.line}: no label names the node; give it with --node NAME")
        slot = _slot(sample.labels, host)
        if slot is None:
            detail = "neither a GPU UUID nor a PCI address in the labels: no telling which device this is"
            scrapes.rejects.append(Reject(file, sample.line, MALFORMED, detail, f"{sample.name}{dict(sample.labels)}"))
            continue
        instant = sample.at or at
        assert instant is not None
        builder = builders.setdefault((slot, instant), _Builder(slot, instant, host, file, sample.line))
        reject = builder.add(name, sample)
        if reject:
            scrapes.rejects.append(reject)
    _spread_card_values(builders)
    scrapes.readings = [builder.finish() for builder in builders.values()]
    scrapes.repeated = sum(builder.repeated for builder in builders.values())
    return scrapes


class _Builder:
    """Collects the series of one slot at one instant."""

    def __init__(self, slot: Slot, at: datetime, node: str, file: str, line: int) -> None:
        self.slot, self.at, self.node, self.file, self.line = slot, at, node, file, line
        self.values: dict[str, float] = {}
        self.labels: dict[str, str] = {}
        self.holders: set[Holder] = set()
        self.series: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        self.repeated = 0

    def add(self, name: str, sample: Sample) -> Reject | None:
        """Take the series in; a reject where the very same series came with another value."""
        series = (name, frozenset(sample.labels.items()))
        known = self.series.setdefault(series, sample.value)
        if known != sample.value and not (known != known and sample.value != sample.value):
            detail = f"{sample.name} of this slot came before as {known:g}: two scrapes in one file? give them one by one"
            return Reject(self.file, sample.line, DUPLICATE, detail, f"{sample.name}{dict(sample.labels)} {sample.value!r}")
        for label, value in sample.labels.items():
            if value.strip():
                self.labels.setdefault(label, value.strip())
        holder = holder_of(sample.labels)
        if holder:
            self.holders.add(holder)
        if name == XID_COUNT:
            self._add_xid(sample)
        elif name in self.values:
            # the device's reading, copied to each pod that shares it, or listed twice: one fact
            self.repeated += 1
        else:
            self.values[name] = sample.value
        return None

    def _add_xid(self, sample: Sample) -> None:
        xid = sample.labels.get("xid", "")
        if sample.value > 0 and xid.isdecimal() and len(xid) < 6:
            self.values[XID_COUNT] = LOST_XID if LOST_XID in (int(xid), self.values.get(XID_COUNT)) else int(xid)

    def finish(self) -> Reading:
        values = dict(self.values)
        lately = values.pop(XID_COUNT, None)
        if lately is not None:
            values.setdefault(XID, lately)
        return Reading(self.slot, self.at, self.node, self.file, self.line, values, self.labels, frozenset(self.holders))


def _spread_card_values(builders: dict[tuple[Slot, datetime], _Builder]) -> None:
    """Where an exporter gives a card's own series beside those of its MIG instances, put them on each instance.

    That is how other exporters write them, and the warehouse counts them once per card; a whole-card reading beside
    the instances' would speak for all of them a second time.
    """
    instances: dict[tuple[str, datetime], list[_Builder]] = {}
    for (slot, at), builder in builders.items():
        if slot.slot_uuid is not None:
            instances.setdefault((slot.gpu_uuid, at), []).append(builder)
    for (gpu_uuid, at), parts in instances.items():
        card = builders.pop((Slot(gpu_uuid, None), at), None)
        for part in parts if card else ():
            assert card is not None
            for name, value in card.values.items():
                if name in CARD_LEVEL:
                    part.values.setdefault(name, value)
            for label, text in card.labels.items():
                part.labels.setdefault(label, text)


def _node(labels: Mapping[str, str]) -> str | None:
    for name in NODE_LABELS:
        host = labels.get(name, "").strip()
        if name == "instance":
            host = re.sub(r":\d+$", "", host)
        if host and not _LOOPBACK.match(host):
            return host
    return None


def _slot(labels: Mapping[str, str], node: str) -> Slot | None:
    """Which device, and which instance of it: by UUID, else by node and PCI address."""
    gpu = (labels.get("UUID") or labels.get("uuid") or labels.get("gpu_uuid") or "").strip()
    pci = (labels.get("pci_bus_id") or "").strip()
    instance = next((labels[name].strip() for name in SLOT_LABELS if labels.get(name, "").strip()), None)
    nested = re.fullmatch(r"MIG-(GPU-[^/]+)/(\d+)/\d+", gpu)
    if nested:  # drivers before R470 name an instance by its card's UUID and its own numbers
        return Slot(nested.group(1), gpu)
    if gpu.startswith("MIG-"):  # names the instance, not the card
        gpu, instance = "", gpu
    if not gpu:
        if not pci:
            return None
        gpu = f"{node}/{pci}"
    number = labels.get("GPU_I_ID", "").strip()
    return Slot(gpu, instance or (f"{gpu}/gi{number}" if number else None))


def nodes_in_doubt(readings: Iterable[Reading]) -> list[str]:
    """Node names that look like an exporter's pod or container."""
    return sorted({reading.node for reading in readings if is_no_node(reading.node)})
