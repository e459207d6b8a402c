"""Let go of raw rows and quarantined ones when they are older than the policy says (semantics 11).

Raw partitions are expired whole, by an outcome record of status `expired` that lists their files as removed: from then
on no reader sees them. The files themselves are deleted by the next retention or compaction after the grace period.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from warehouse.atomic import alone
from warehouse.home import Home
from warehouse.landing.compaction import maintenance_record
from warehouse.landing.landings import write_outcome
from warehouse.landing.leftovers import GRACE, delete_leftovers, remove_if_empty
from warehouse.landing.outcomes import EXPIRED, LandedTable, current_files, landed_tables
from warehouse.landing.writer import writing

SOURCE = "retention"
#: rows landed less than this ago stay whatever their age, so that a build sees an import of old days before it goes
SETTLE_DAYS = 2


@dataclass(frozen=True)
class Expired:
    """A day of a table (or of the quarantine of a source) that was let go, with its files and their bytes."""

    table_name: str
    day: date
    files: int
    bytes: int

    def summary(self) -> str:
        """One line of what a command prints."""
        return f"{self.table_name} {self.day}: {self.files} files, {self.bytes / 2**20:.1f} MiB"


def expire(
    home: Home,
    *,
    now: datetime | None = None,
    samples_days: int = 35,
    processes_days: int = 14,
    quarantine_days: int = 90,
    settle_days: int = SETTLE_DAYS,
    grace: timedelta = GRACE,
) -> list[Expired]:
    """Expire the UTC days that ended more than so many days before `now` (naive UTC); return what went.

    Doing it again removes nothing more. Raises BusyError while a compaction runs, LandingError where the disk cannot
    be written.
    """
    now = now or datetime.now(UTC).replace(tzinfo=None)
    kept_days = {"gpu_samples": samples_days, "node_samples": samples_days, "gpu_processes": processes_days}
    with alone(home.raw, "maintenance"):
        records = landed_tables(home.raw)
        expired = [
            _expire_table(home, table, days)
            for table, days in _old_days(records, kept_days, now, now - timedelta(days=settle_days)).items()
        ]
        quarantine = _expire_quarantine(home, (now - timedelta(days=quarantine_days)).date())
        delete_leftovers(home, grace=grace)
    return [day for days in expired for day in days] + quarantine


def _old_days(
    records: Sequence[LandedTable], kept_days: Mapping[str, int], now: datetime, settled_before: datetime
) -> dict[str, dict[date, list[str]]]:
    """Table → day → its files, of the days whose end lies more than the table's days before `now`."""
    landed_at = {file: record.landed_at for record in records for file in record.files}
    found: dict[str, dict[date, list[str]]] = {}
    for table, file in current_files(records):
        day = date.fromisoformat(Path(file).parent.name.removeprefix("dt="))
        if table in kept_days and day < (now - timedelta(days=kept_days[table])).date() and landed_at[file] <= settled_before:
            found.setdefault(table, {}).setdefault(day, []).append(file)
    return found


def _expire_table(home: Home, table: str, days: Mapping[date, Sequence[str]]) -> list[Expired]:
    files = [file for day in sorted(days) for file in days[day]]
    run_id = f"{SOURCE}-{hashlib.sha256(json.dumps(files).encode()).hexdigest()[:20]}"
    expired = [Expired(table, day, len(days[day]), sum(_size(home.raw / file) for file in days[day])) for day in sorted(days)]
    with writing(home.raw):
        write_outcome(home.raw, SOURCE, [maintenance_record(SOURCE, run_id, table, EXPIRED, [], files)])
    return expired


def _expire_quarantine(home: Home, before: date) -> list[Expired]:
    expired = []
    for folder, day in _quarantine_days(home):
        if day >= before:
            continue
        files = list(folder.glob("*.parquet"))
        size = sum(_size(path) for path in files)
        for path in files:
            path.unlink(missing_ok=True)
        remove_if_empty(folder)
        if files:
            expired.append(Expired(f"quarantine/{folder.parent.name}", day, len(files), size))
    return expired


def _quarantine_days(home: Home) -> Iterator[tuple[Path, date]]:
    for folder in sorted(home.quarantine.glob("*/dt=*")):
        yield folder, date.fromisoformat(folder.name.removeprefix("dt="))


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
