"""Rule 7 of semantics.md: a quiet device beside a busy one of the same run or service. A slot counts as a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from tests.reference.states import HeldMinute
from tests.reference.world import MINUTE_US

QUIET_BELOW, BUSY_FROM = Fraction(30, 100), Fraction(80, 100)
LEAST_MINUTES = 15


def unbalanced_minutes(held: Sequence[HeldMinute], scopes: Mapping[str, str]) -> set[tuple[str, str, int]]:
    """(run, slot, minute) that are quiet while another slot of the scope is busy, for at least 15 minutes in a row."""
    told = [part for part in held if part.covered_us and part.rolled.signal in ("sm_active", "graphics_engine_active")]
    busy: dict[tuple[str, int], set[tuple[str, str]]] = {}
    for part in told:
        if part.rolled.mean_activity >= BUSY_FROM:
            busy.setdefault((scopes[part.run_id], part.minute), set()).add((part.gpu, part.slot.slot_id))
    quiet: dict[tuple[str, str], set[int]] = {}
    for part in told:
        others = busy.get((scopes[part.run_id], part.minute), set()) - {(part.gpu, part.slot.slot_id)}
        if part.rolled.mean_activity < QUIET_BELOW and others:
            quiet.setdefault((part.run_id, part.slot.slot_id), set()).add(part.minute)
    return {
        (*key, minute) for key, minutes in quiet.items() for row in _rows(minutes) if len(row) >= LEAST_MINUTES for minute in row
    }


def _rows(minutes: set[int]) -> list[list[int]]:
    rows: list[list[int]] = []
    for minute in sorted(minutes):
        if rows and rows[-1][-1] == minute - MINUTE_US:
            rows[-1].append(minute)
        else:
            rows.append([minute])
    return rows
