"""Needed memory (section 4 of semantics.md) and rule 12: a slot bigger than what its run or service does on a day.

Readings taken where the page leaves two:

- statistics are over all covered time of the day, whatever state takes it, weighted by wall time on the slot;
- a service of which one replica's needed memory is unknown has none that is known; a slot without memory readings beside
  others with them says nothing;
- a service that spans GPU models is left alone like a run that does;
- the card's memory is what its inventory says of the whole card, else what the catalogue does;
- of a pool told several times on a day the largest counts.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path

from tests.reference.capacity import Device
from tests.reference.states import HeldMinute
from tests.reference.world import DAY_US, HOUR_US, World

SEEDS = Path(__file__).resolve().parents[2] / "dbt_project" / "seeds"
QUIET_UP_TO = Fraction(20, 100)
MEMORY_MARGIN, ACTIVITY_MARGIN = Fraction(11, 10), Fraction(8, 10)
LEAST_COVERED_US = HOUR_US

RunDay = tuple[str, int]


@dataclass(frozen=True)
class Profile:
    compute: Fraction  # of the card
    memory: Fraction


@dataclass(frozen=True)
class Card:
    memory: int | None
    profiles: tuple[Profile, ...]


@cache
def catalogue(model: str) -> Card:
    """Public facts about a GPU model, by name."""
    name = "-" + re.sub(r"[ _]+", "-", model.lower()).strip("-") + "-"
    with (SEEDS / "gpu_models.csv").open(newline="") as text:
        rows = sorted(csv.DictReader(text), key=lambda row: int(row["match_order"]))
    pattern = [(re.compile(".*".join(map(re.escape, row["name_pattern"].split("%")))), row) for row in rows]
    row = next((row for like, row in pattern if like.fullmatch(name)), None)
    if not row:
        return Card(None, ())
    with (SEEDS / "mig_profiles.csv").open(newline="") as text:
        found = [profile for profile in csv.DictReader(text) if profile["mig_family"] == row["mig_family"]]
    return Card(
        int(row["memory_bytes"]) if row["memory_bytes"] else None,
        tuple(
            Profile(
                Fraction(int(profile["compute_slices"]), int(profile["card_compute_slices"])),
                Fraction(int(profile["memory_slices"]), int(profile["card_memory_slices"])),
            )
            for profile in found
        ),
    )


def kv_unused_bytes(world: World, held: Sequence[HeldMinute]) -> dict[RunDay, Fraction | None]:
    """(run of kind inference, day) → what each of its slots holds for a KV cache that was not used at its peak."""
    slots: dict[RunDay, set[str]] = {}
    for part in held:
        slots.setdefault((part.run_id, part.minute // DAY_US), set()).add(part.slot.slot_id)
    result: dict[RunDay, Fraction | None] = {}
    for run in world.runs:
        if run.kind != "inference":
            continue
        for day in sorted({day for run_id, day in slots if run_id == run.run_id}):
            rows = [row for row in world.usage if row.is_of(run) and row.start // DAY_US == day]
            unused: Fraction | None = Fraction(0) if rows else None
            for server in sorted({row.server for row in rows}):
                pools = [row.kv_pool for row in rows if row.server == server and row.kv_pool is not None]
                uses = [row.kv_use for row in rows if row.server == server and row.kv_use is not None]
                if unused is None or not pools or not uses:
                    unused = None
                else:
                    unused += max(pools) * (1 - max(uses))
            result[run.run_id, day] = None if unused is None else unused / len(slots[run.run_id, day])
    return result


def fits(
    world: World, known: Mapping[str, Device], held: Sequence[HeldMinute], scopes: Mapping[str, str]
) -> dict[tuple[str, str, int], Fraction]:
    """(run, slot, day) → the part of the slot into which rule 12 would put the work of the run or service."""
    unused = kv_unused_bytes(world, held)
    by_scope: dict[tuple[str, int], list[HeldMinute]] = {}
    for part in held:
        by_scope.setdefault((scopes[part.run_id], part.minute // DAY_US), []).append(part)
    result: dict[tuple[str, str, int], Fraction] = {}
    for (_, day), parts in by_scope.items():
        covered = [part for part in parts if part.covered_us]
        memory = _peak_memory(covered, unused)
        activity = _peak_activity(covered)
        if memory is None or activity is None or len({known[part.gpu].model for part in parts}) > 1:
            continue
        for part in covered:
            card = catalogue(known[part.gpu].model)
            of_card = known[part.gpu].memory_total or card.memory
            smaller = [
                profile.compute / part.slot.fraction
                for profile in card.profiles
                if profile.compute < part.slot.fraction
                and activity / ACTIVITY_MARGIN <= profile.compute / part.slot.fraction
                and of_card
                and memory * MEMORY_MARGIN <= of_card * profile.memory
            ]
            if smaller:
                result[part.run_id, part.slot.slot_id, day] = min(smaller)
    return result


def _peak_activity(covered: Sequence[HeldMinute]) -> Fraction | None:
    """The p95 of minute activity; None where too little is covered, nothing is done, or too much for a smaller slot."""
    whole = sum((part.covered_wall_us for part in covered), Fraction(0))
    if whole < LEAST_COVERED_US:
        return None
    mean = sum((part.covered_wall_us * part.rolled.mean_activity for part in covered), Fraction(0)) / whole
    if not 0 < mean <= QUIET_UP_TO:
        return None
    so_far = Fraction(0)
    for part in sorted(covered, key=lambda part: part.rolled.mean_activity):
        so_far += part.covered_wall_us
        if so_far >= whole * Fraction(95, 100):
            return part.rolled.mean_activity
    raise AssertionError("95 % of the time are more than all of it")


def _peak_memory(covered: Sequence[HeldMinute], unused: Mapping[RunDay, Fraction | None]) -> Fraction | None:
    """The highest minute mean of needed memory; None where it is not known."""
    needed: list[Fraction] = []
    for part in covered:
        of_cache = unused.get((part.run_id, part.minute // DAY_US), Fraction(0))
        if of_cache is None:
            return None
        if part.rolled.memory is not None:
            needed.append(part.rolled.memory - of_cache)
    return max(needed, default=None)
