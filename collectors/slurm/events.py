"""`sacctmgr show event`: when a node was down or drained, in the past too, into rows of `node_states` with both ends."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from collectors.parsed import Parsed
from collectors.slurm.states import node_state, unknown_flags
from collectors.slurm.times import parse_time
from collectors.times import AMBIGUOUS_LOCAL_TIME, AmbiguousTimeError
from warehouse.landing.conform import MALFORMED, Reject, redact

FIELDS = ("Cluster", "NodeName", "TimeStart", "TimeEnd", "State", "Reason")

_SPELLING = {name.lower(): name for name in FIELDS} | {
    "node name": "NodeName",
    "time start": "TimeStart",
    "time end": "TimeEnd",
}


def is_events(first: str) -> bool:
    names = {_SPELLING.get(cell.strip().lower()) for cell in re.split(r"[|\x1f\t;,]", first)}
    return {"NodeName", "TimeStart", "State"} <= names


def read(text: str, file: str, zone: ZoneInfo | None, *, only_ended: bool = False) -> Parsed:
    """A row per interval; one without an end is open. The end is kept out where `only_ended`: the node tells its state itself.

    The reason stands last in sacctmgr's own order, so that one which holds the delimiter can be put together again.
    """
    parsed = Parsed()
    names: list[str] = []
    delimiter = "|"
    strange: set[str] = set()
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.rstrip("\r")
        if not line.strip() or re.fullmatch(r"[- ]*-{3}[- |]*", line):
            continue
        if is_events(line):
            delimiter = next(mark for mark in "|\x1f\t;," if mark in line)
            names = [_SPELLING.get(cell.strip().lower(), cell.strip()) for cell in line.split(delimiter)]
            continue
        try:
            values = _cut(line.split(delimiter), names)
            if not values["NodeName"]:
                continue  # an event of the whole cluster: its size at a restart
            row = _row(values, zone)
        except ValueError as error:
            reason = AMBIGUOUS_LOCAL_TIME if isinstance(error, AmbiguousTimeError) else MALFORMED
            parsed.rejects.append(Reject(file, number, reason, str(error), redact(line[:2000])))
            continue
        strange |= unknown_flags([values["State"]])
        if row["state"] not in (None, "in_service") and (row["ended_at"] or not only_ended):
            parsed.add("node_states", {"line_number": number, **row})
    if strange:
        parsed.notes.append(f"events with words for a state that are not known: {', '.join(sorted(strange))[:300]}")
    return parsed


def _cut(cells: Sequence[str], names: Sequence[str]) -> Mapping[str, str]:
    """Field → text. A closing delimiter is dropped; surplus cells are parts of the reason."""
    cells = [cell.strip() for cell in cells]
    names = [name for name in names if name]
    while len(cells) > len(names) and not cells[-1]:
        cells.pop()
    surplus = len(cells) - len(names)
    if surplus > 0 and "Reason" in names:
        place = names.index("Reason")
        cells[place : place + surplus + 1] = ["|".join(cells[place : place + surplus + 1])]
    if len(cells) != len(names):
        raise ValueError(f"{len(cells)} texts in {len(names)} columns: cut off? save with sacctmgr -P show event")
    return dict(zip(names, cells, strict=True))


def _row(values: Mapping[str, str], zone: ZoneInfo | None) -> dict[str, Any]:
    started_at, ended_at = (parse_time(values.get(name, ""), zone) for name in ("TimeStart", "TimeEnd"))
    if started_at is None:
        raise ValueError("the event has no TimeStart")
    if ended_at and ended_at < started_at:
        raise ValueError(f"TimeEnd {ended_at.isoformat()} lies before TimeStart {started_at.isoformat()}")
    return {
        "cluster": values.get("Cluster") or None,
        "node": values["NodeName"],
        "state": node_state(values["State"]),
        "reason": values.get("Reason") or None,
        "started_at": started_at,
        "ended_at": ended_at,
    }


def through(parsed: Parsed) -> datetime | None:
    """The latest instant that an event vouches for."""
    instants = [row["ended_at"] or row["started_at"] for row in parsed.tables.get("node_states", [])]
    return max(instants, default=None)
