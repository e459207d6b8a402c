"""What a hold is: slots of one kind, the share of each, and the device where something names it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from collectors.kubernetes.devices import Claim, Device

#: `assignment_method`: how the device is known
BY_ANNOTATION, BY_CLAIM, BY_RESERVATION = "scheduler_annotation", "resource_claim", "reservation_pod"
BY_COUNT = "node_pool"

UUID = re.compile(r"(GPU|MIG)-[0-9a-zA-Z/-]{6,}")


@dataclass(frozen=True)
class Hold:
    """`count` slots of one kind; `share` of each (None: all of it). `count` None: it holds GPUs, how many is not known."""

    count: float | None
    share: float | None = None
    mig_profile: str | None = None
    gpu_uuid: str | None = None
    slot_uuid: str | None = None
    gpu_index: int | None = None
    method: str = BY_COUNT


@dataclass(frozen=True)
class Reservation:
    """A card that a reservation pod holds for a group of pods: its UUID, or from old versions its index."""

    gpu_uuid: str | None
    gpu_index: int | None


@dataclass
class Fleet:
    """What other objects tell of devices."""

    reservations: dict[str, Reservation] = field(default_factory=dict)
    claims: dict[tuple[str, str], Claim] = field(default_factory=dict)
    devices: dict[tuple[str, str, str], Device] = field(default_factory=dict)


class UnknownShareError(ValueError):
    """The pod holds a part of a GPU, and how much of it another object would tell; the message names that object."""
