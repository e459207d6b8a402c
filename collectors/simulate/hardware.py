"""The fleet's machines: three clusters whose parts keep their proportions from 8 GPUs to 10,000.

alder    own hardware under Slurm, priced by rate cards: A100 nodes for batch jobs and for interactive sessions
cirrus   a cloud's Kubernetes, priced by FOCUS bills: H100 nodes that serve, H100 cards in MIG instances, L40S cards
         shared by time-slicing
drift    spot nodes under Kubernetes, priced per GPU-hour: H100 nodes that come and go
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

ALDER, CIRRUS, DRIFT = "alder", "cirrus", "drift"
CLUSTERS = (ALDER, CIRRUS, DRIFT)
LEAST_GPUS, MOST_GPUS = 8, 10_000
#: what nodes are for; `BATCH` and `INTERACTIVE` are Slurm partitions too
BATCH, INTERACTIVE, SERVING, MIG, SHARED, SPOT = "batch", "interactive", "serving", "mig", "shared", "spot"
#: compute slices of a card that can be split
CARD_SLICES = 7
#: pods that may share a time-sliced card
REPLICAS = 4


@dataclass(frozen=True)
class Model:
    """A card as NVML calls it. Clocks are such that 70, 80 and 90 % of them are whole numbers."""

    name: str
    memory_mib: int
    clock_mhz: int
    idle_watts: float
    full_watts: float


A100 = Model("NVIDIA A100-SXM4-80GB", 81_920, 1410, 62.0, 400.0)
H100 = Model("NVIDIA H100 80GB HBM3", 81_559, 1980, 72.0, 700.0)
L40S = Model("NVIDIA L40S", 46_068, 2520, 38.0, 350.0)

#: MIG profile → (compute slices, memory in MiB)
PROFILES = {"1g.10gb": (1, 9_984), "2g.20gb": (2, 20_096), "3g.40gb": (3, 40_448)}
#: layouts of a split card, as (GPU instance id, profile); the first two leave a seventh over
LAYOUTS = (
    ((7, "1g.10gb"), (8, "1g.10gb"), (3, "2g.20gb"), (4, "2g.20gb")),
    ((1, "3g.40gb"), (2, "3g.40gb")),
    tuple((number, "1g.10gb") for number in range(7, 14)),
)


@dataclass(frozen=True)
class Slot:
    """What is handed out: a whole card, or one MIG instance of it. `number` counts the fleet's slots, `card` its cards."""

    number: int
    card: int
    node: str
    index: int
    gpu_uuid: str
    slices: int
    memory_mib: int
    instance: int | None = None
    profile: str | None = None

    @property
    def slot_uuid(self) -> str | None:
        return None if self.instance is None else f"{self.gpu_uuid}/gi{self.instance}"

    @property
    def pci_bus_id(self) -> str:
        return f"00000000:{0x0B + 0x1D * self.index:02X}:00.0"

    @property
    def fraction(self) -> float:
        return self.slices / CARD_SLICES


@dataclass(frozen=True)
class Node:
    """`resource_id` is what the provider's bill calls it. `stranded_slices` is what the layouts of its cards leave over."""

    cluster: str
    name: str
    role: str
    model: Model
    slots: tuple[Slot, ...]
    instance_type: str
    resource_id: str | None = None
    stranded_slices: int = 0

    @property
    def cards(self) -> int:
        return len({slot.card for slot in self.slots})


@dataclass(frozen=True)
class Fleet:
    nodes: tuple[Node, ...]
    by_name: dict[str, Node] = field(default_factory=dict)

    def of(self, *roles: str) -> list[Node]:
        return [node for node in self.nodes if node.role in roles]

    def in_cluster(self, cluster: str) -> list[Node]:
        return [node for node in self.nodes if node.cluster == cluster]


@dataclass(frozen=True)
class _Group:
    cluster: str
    role: str
    model: Model
    prefix: str
    cards: int
    least_nodes: int
    type_name: str
    is_rented: bool


def make_fleet(gpus: int, seed: int) -> Fleet:
    """The machines of a fleet of `gpus` cards; UUIDs and resource ids follow from the seed."""
    nodes: list[Node] = []
    slots = cards = split_cards = 0
    for group in _groups(gpus):
        for number, size in enumerate(_node_sizes(group.cards, group.least_nodes), start=1):
            name = f"{group.prefix}{number:04d}"
            own: list[Slot] = []
            stranded = 0
            for index in range(size):
                gpu_uuid = f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, f'gpu-net/{seed}/{name}/{index}')}"
                layout = LAYOUTS[split_cards % len(LAYOUTS)] if group.role == MIG else ((None, None),)
                split_cards += group.role == MIG
                for instance, profile in layout:
                    slices, memory = PROFILES[profile] if profile else (CARD_SLICES, group.model.memory_mib)
                    number_of_slot = slots + len(own)
                    own.append(Slot(number_of_slot, cards, name, index, gpu_uuid, slices, memory, instance, profile))
                stranded += CARD_SLICES - sum(PROFILES[profile][0] if profile else CARD_SLICES for _, profile in layout)
                cards += 1
            slots += len(own)
            resource = f"i-{uuid.uuid5(uuid.NAMESPACE_OID, f'gpu-net/{seed}/{name}').hex[:17]}" if group.is_rented else None
            kind = f"{group.type_name}-{size}"
            nodes.append(Node(group.cluster, name, group.role, group.model, tuple(own), kind, resource, stranded))
    return Fleet(tuple(nodes), {node.name: node for node in nodes})


def _groups(gpus: int) -> list[_Group]:
    split, shared, serving, spot, sessions = (
        max(least, round(gpus * share)) for least, share in ((1, 0.05), (1, 0.05), (1, 0.22), (2, 0.2), (1, 0.05))
    )
    batch = gpus - split - shared - serving - spot - sessions
    return [
        _Group(ALDER, BATCH, A100, "a", batch, 1, "hgx-a100", False),
        _Group(ALDER, INTERACTIVE, A100, "i", sessions, 1, "hgx-a100", False),
        _Group(CIRRUS, SERVING, H100, "c", serving, 1, "gpu-h100", True),
        _Group(CIRRUS, MIG, H100, "m", split, 1, "gpu-h100", True),
        _Group(CIRRUS, SHARED, L40S, "n", shared, 1, "gpu-l40s", True),
        _Group(DRIFT, SPOT, H100, "d", spot, 2, "spot-h100", True),
    ]


def _node_sizes(cards: int, least_nodes: int) -> list[int]:
    """As large as nodes of 8, 4, 2 or 1 cards can be; the last one has what is left."""
    size = next(size for size in (8, 4, 2, 1) if -(-cards // size) >= least_nodes and size <= cards)
    return [min(size, cards - first) for first in range(0, cards, size)]
