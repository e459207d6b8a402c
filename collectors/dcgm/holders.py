"""Who held a slot, as far as labels tell: a row when a holder is first seen, another when what is known of it changes.

Evidence by a name holds only while scrapes show it, since a name is used again: its row is closed when it is not seen any
more, and begun anew after a gap and with each hour, so that a pod which replaced one of the same name between two
scrapes is found. A pod's uid and a job's id are used once; their rows are closed all the same, where scrapes show it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from collectors.dcgm.history import Hold
from collectors.dcgm.labels import Slot
from collectors.dcgm.parse import Reading

EXCLUSIVE, SHARED = "exporter_label", "exporter_label_equal_split"


def follow(
    cluster: str,
    slot: Slot,
    readings: Sequence[Reading],
    before: tuple[datetime | None, Sequence[Hold]],
    patience: timedelta,
) -> tuple[list[Mapping[str, Any]], tuple[Hold, ...]]:
    """Rows of `run_gpus` for a slot's readings in time order, and its holders after the last of them.

    `before` is the instant of the reading before the first one, and the holders by it. A holder that is missing from
    the scrapes for more than `patience` has gone, at the first scrape that did not show it: labels are lost for a
    scrape or two when the kubelet is busy. Several holders share the slot evenly: labels say who, not how much.
    """
    last_at, known = before
    holds = {hold.job_id: hold for hold in known}
    rows: list[Mapping[str, Any]] = []
    for reading in readings:
        is_after_gap = last_at is not None and reading.at - last_at > patience
        is_new_hour = last_at is not None and _hour(last_at) != _hour(reading.at)
        present = {holder.evidence for holder in reading.holders if holder.evidence}
        gone = [hold for hold in holds.values() if hold.job_id not in present and reading.at - hold.seen > patience]
        for hold in gone:
            del holds[hold.job_id]
            rows.append(_row(cluster, slot, hold, reading.line, ended_at=hold.missed or reading.at))
        # what a holder's going changes for the others, it changed when it was first missed
        changed_at = min((hold.missed or reading.at for hold in gone), default=reading.at)
        # a sharer that is missed shares on; one that had the slot alone was followed by who is there now
        sharers = len(present | {hold.job_id for hold in holds.values() if hold.sharers > 1})
        for job_id in sorted(present):
            old = holds.get(job_id)
            if old is None:
                new = Hold(job_id, reading.node, sharers, reading.at, reading.at)
            elif old.sharers != sharers or old.node != reading.node:
                new = Hold(job_id, reading.node, sharers, max(changed_at, old.since), reading.at)
            elif is_after_gap or (is_new_hour and "/" in job_id):
                new = Hold(job_id, reading.node, sharers, reading.at, reading.at)
            else:
                holds[job_id] = replace(old, seen=reading.at, missed=None)
                continue
            if old and old.since < new.since:
                rows.append(_row(cluster, slot, old, reading.line, ended_at=new.since))
            rows.append(_row(cluster, slot, new, reading.line))
            holds[job_id] = new
        for job_id in set(holds) - present:
            holds[job_id] = replace(holds[job_id], missed=holds[job_id].missed or reading.at)
        last_at = reading.at
    return list(_newest(rows)), tuple(holds[job_id] for job_id in sorted(holds))


def _newest(rows: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The last of the rows with one key, so that a landing never holds a row that it replaces itself."""
    newest = {(row["job_id"], row["node"], row["started_at"]): row for row in rows}
    yield from newest.values()


def _row(cluster: str, slot: Slot, hold: Hold, line: int, ended_at: datetime | None = None) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "job_id": hold.job_id,
        "node": hold.node,
        "gpu_uuid": slot.gpu_uuid,
        "slot_uuid": slot.slot_uuid,
        "gpu_count": 1,
        "share_ratio": 1 / hold.sharers if hold.sharers > 1 else None,
        "started_at": hold.since,
        "ended_at": ended_at,
        "assignment_method": EXCLUSIVE if hold.sharers == 1 else SHARED,
        "line_number": line,
    }


def _hour(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)
