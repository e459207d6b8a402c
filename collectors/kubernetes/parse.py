"""Objects, from files or from the API server, into a snapshot: what was said of pods, nodes and devices at one time. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from collectors.command import SourceFailedError
from collectors.kubernetes.devices import Claim, Device, parse_claim, parse_koordinator, parse_slice, registered_devices
from collectors.kubernetes.fields import NOT_DATED, as_instant, as_map, as_text, instants_in, maps
from collectors.kubernetes.nodes import Node, parse_node
from collectors.kubernetes.objects import Object, ObjectReader
from collectors.kubernetes.owners import Owner, read_owner
from collectors.kubernetes.pods import Pod, parse_pod
from collectors.kubernetes.schema import CONTROLLERS, END_EVENTS
from warehouse.landing.conform import MALFORMED, Reject

UNDATED = "no object in it tells a time; say when it was saved: --at 2026-11-01T00:00:00Z (once per file, in their order)"


@dataclass(frozen=True)
class EndEvent:
    """What an event says of a pod that is not there any more."""

    at: datetime
    state: str
    reason: str


@dataclass
class Snapshot:
    """What one file, or one reading of the API server, said. `at` is when; of a file that does not say, the latest instant in it.

    `namespaces` are those of all pods read, `listed` the kinds that it claims to have all of, `present` the uids of pods and the
    names of nodes that are there at all, those that cannot be read among them.
    """

    file: str
    at: datetime
    pods: list[Pod] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    devices: list[Device] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    owners: dict[str, Owner] = field(default_factory=dict)
    events: dict[str, EndEvent] = field(default_factory=dict)
    listed: set[str] = field(default_factory=set)
    namespaces: set[str] = field(default_factory=set)
    present: set[str] = field(default_factory=set)
    rejects: list[Reject] = field(default_factory=list)
    pods_without_gpus: int = 0
    unknown_resources: set[str] = field(default_factory=set)
    other_accelerators: set[str] = field(default_factory=set)
    other_kinds: Counter[str] = field(default_factory=Counter)


@dataclass
class SnapshotBuilder:
    """Takes objects one by one and keeps what is needed of them.

    `at` is when they were said, None where the latest instant in them stands for it; `own_resources` are names that the user
    says are GPUs.
    """

    file: str
    at: datetime | None
    own_resources: frozenset[str] = frozenset()
    all_pods: bool = False

    def __post_init__(self) -> None:
        self.snapshot = Snapshot(self.file, NOT_DATED)
        self.latest: datetime | None = None

    def add(self, item: Object) -> None:
        """One object; one that cannot be read becomes a reject and the rest stands."""
        if item.kind in ("Pod", "Node"):
            self.snapshot.present |= {name for part in ("uid", "name") if (name := as_text(item.metadata.get(part)))}
        try:
            if self.at is None:
                self._date(item)
            {
                "Pod": self._pod,
                "Node": self._node,
                "ResourceSlice": self._slice,
                "Device": self._koordinator,
                "ResourceClaim": self._claim,
                "Event": self._event,
            }.get(item.kind, self._other)(item)
        except (ValueError, ArithmeticError) as error:
            self.snapshot.rejects.append(Reject(self.file, item.line, MALFORMED, f"{item.name[:200]}: {error}"))

    def finish(self) -> Snapshot:
        """The snapshot with its time. Raises SourceFailedError where there is none."""
        moment = self.at or self.latest
        if moment is None and (self.snapshot.pods or self.snapshot.nodes or self.snapshot.devices):
            raise SourceFailedError(f"{self.file}: {UNDATED}")
        self.snapshot.at = moment or NOT_DATED
        at = self.snapshot.at
        self.snapshot.pods = [replace(pod, at=at) for pod in self.snapshot.pods]
        self.snapshot.nodes = [replace(node, at=at) for node in self.snapshot.nodes]
        self.snapshot.devices = [replace(device, at=at) for device in self.snapshot.devices]
        return self.snapshot

    def _date(self, item: Object) -> None:
        metadata = item.metadata
        created = [metadata.get("creationTimestamp"), *(entry.get("time") for entry in maps(metadata.get("managedFields")))]
        found = [*instants_in(created), *instants_in(item.data.get("status"))]
        if item.kind == "Event":
            found += [moment for moment in [_event_time(item)] if moment]
        self.latest = max([*found, *([self.latest] if self.latest else [])], default=None)

    def _pod(self, item: Object) -> None:
        pod = parse_pod(item, self.file, self.own_resources)
        self.snapshot.namespaces.add(pod.namespace or "")
        self.snapshot.unknown_resources |= pod.requests.unknown
        self.snapshot.other_accelerators |= pod.requests.other_accelerators
        if self.all_pods or pod.uses_gpus or pod.claims:
            self.snapshot.pods.append(pod)
        else:
            self.snapshot.pods_without_gpus += 1

    def _node(self, item: Object) -> None:
        node = parse_node(item, self.file, self.own_resources)
        self.snapshot.nodes.append(node)
        self.snapshot.devices += registered_devices(node)

    def _slice(self, item: Object) -> None:
        self.snapshot.devices += parse_slice(item, self.file)

    def _koordinator(self, item: Object) -> None:
        if "koordinator.sh/" in (as_text(item.data.get("apiVersion")) or ""):
            self.snapshot.devices += parse_koordinator(item, self.file)
        else:
            self._other(item)

    def _claim(self, item: Object) -> None:
        self.snapshot.claims.append(parse_claim(item))

    def _event(self, item: Object) -> None:
        about = as_map(item.data.get("involvedObject")) or as_map(item.data.get("regarding"))
        uid, reason, at = as_text(about.get("uid")), as_text(item.data.get("reason")) or "", _event_time(item)
        if as_text(about.get("kind")) == "Pod" and uid and at and reason in END_EVENTS:
            event = EndEvent(at, END_EVENTS[reason], reason)
            known = self.snapshot.events.get(uid)
            # the cause comes before the killing that follows from it
            self.snapshot.events[uid] = event if known is None or known.reason == "Killing" else known

    def _other(self, item: Object) -> None:
        uid, owner = as_text(item.metadata.get("uid")), read_owner(item.metadata)
        if uid and owner:
            self.snapshot.owners[uid] = owner
        elif item.kind not in CONTROLLERS:
            self.snapshot.other_kinds[item.kind] += 1


def read_snapshot(
    data: bytes,
    file: str,
    *,
    at: datetime | None = None,
    own_resources: frozenset[str] = frozenset(),
    all_pods: bool = False,
) -> Snapshot:
    """What a saved file says. Raises SourceFailedError where it holds no object, or does not say when it was saved."""
    reader = ObjectReader(file)
    builder = SnapshotBuilder(file, at, own_resources, all_pods)
    for item in reader.read(data):
        builder.add(item)
    snapshot = builder.finish()
    snapshot.rejects = sorted([*reader.rejects, *snapshot.rejects], key=lambda reject: reject.line or 0)
    snapshot.listed = set() if reader.is_cut else reader.listed
    return snapshot


def notes(snapshots: Sequence[Snapshot]) -> list[str]:
    """What a person should know of what was read and is in no table."""
    found = []
    without = sum(snapshot.pods_without_gpus for snapshot in snapshots)
    if without:
        found.append(f"{without} pods ask for no GPU and were left out (--all-pods lands them)")
    unknown = sorted({name for snapshot in snapshots for name in snapshot.unknown_resources})
    if unknown:
        found.append(f"resources not known here, and not counted: {', '.join(unknown)}; if they are GPUs: --gpu-resource NAME")
    others = sorted({name for snapshot in snapshots for name in snapshot.other_accelerators})
    if others:
        found.append(f"accelerators that are no GPUs, left out: {', '.join(others)}")
    kinds: Counter[str] = Counter()
    for snapshot in snapshots:
        kinds.update(snapshot.other_kinds)
    if kinds:
        listed = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        found.append(f"objects of kinds that are not read: {listed}")
    return found


def _event_time(item: Object) -> datetime | None:
    told: Iterable[object] = (
        as_map(item.data.get("series")).get("lastObservedTime"),
        item.data.get("lastTimestamp"),
        item.data.get("deprecatedLastTimestamp"),
        item.data.get("eventTime"),
        item.data.get("firstTimestamp"),
    )
    return next((moment for value in told if (moment := as_instant(value))), None)
