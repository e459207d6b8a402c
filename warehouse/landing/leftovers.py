"""Delete data files that no reader needs: replaced ones after a grace period, and those of killed writers."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from warehouse.atomic import STALE_SECONDS
from warehouse.home import Home
from warehouse.landing.outcomes import current_files, landed_tables, unreadable_outcomes
from warehouse.landing.shape import TABLES

logger = logging.getLogger(__name__)

#: how long a replaced file stays for readers that listed it before it was replaced
GRACE = timedelta(hours=1)

#: names that a landing, a compaction or an atomic write gives: a file that somebody put there by hand is left alone
_WRITTEN_BY_US = re.compile(r".+-[0-9a-f]{20}-\d{3,}\.parquet|\.tmp-[0-9a-f]{32}-.+")
_QUARANTINED = re.compile(r"(?P<run_id>.+-[0-9a-f]{20})(-\d{3,})?\.parquet")


def delete_leftovers(home: Home, *, grace: timedelta) -> int:
    """Delete replaced and expired files whose record is older than `grace`, and day-old files that no record lists.

    Empty folders of days go with them. Ages are by this machine's clock, as the records are. Returns how many files
    were deleted.
    """
    # listed before the records are read: a file that a landing renames into place meanwhile is not among them
    on_disk = list(_data_files(home.raw))
    quarantined = list(home.quarantine.glob("*/dt=*/*.parquet"))
    records = landed_tables(home.raw)
    replaced_before = datetime.now(UTC).replace(tzinfo=None) - grace
    if damaged := unreadable_outcomes(home.raw):
        # which files such a record lists is not known: none may be taken for one that no record lists
        logger.warning("%s cannot be read: no file is deleted until it is mended or gone", damaged[0])
        return 0
    current = {file for _, file in current_files(records)}
    replaced = {file for record in records if record.landed_at <= replaced_before for file in record.removed_files}
    listed = current | {file for record in records for file in record.removed_files}
    committed = {record.collection_run_id for record in records}
    deleted = 0
    for path in on_disk:
        name = str(path.relative_to(home.raw))
        if name in replaced or (name not in listed and _is_abandoned(path)):
            path.unlink(missing_ok=True)
            deleted += 1
    for path in quarantined:
        match = _QUARANTINED.fullmatch(path.name)
        if match and match["run_id"] not in committed and _is_old(path):
            path.unlink(missing_ok=True)
            deleted += 1
    for folder in {path.parent for path in on_disk}:
        remove_if_empty(folder)
    return deleted + _delete_unfinished(home)


def _delete_unfinished(home: Home) -> int:
    """Delete what writers that were killed left beside verdicts, mails, configuration and state, when it is a day old."""
    deleted = 0
    for root in (home.build, home.digests, home.config, home.state):
        for path in root.rglob(".tmp-*"):
            if path.is_file() and not path.is_symlink() and _is_abandoned(path):
                path.unlink(missing_ok=True)
                deleted += 1
    return deleted


def remove_if_empty(folder: Path) -> None:
    """Remove a day's folder that holds nothing; a landing that needs it makes it again."""
    try:
        folder.rmdir()
    except OSError:
        return


def _data_files(raw: Path) -> Iterator[Path]:
    for table in TABLES:
        for folder in raw.glob(f"*/{table}/dt=*"):
            yield from (path for path in folder.iterdir() if path.is_file())
    for folder in raw.glob("*/collection_runs/dt=*"):
        yield from folder.glob(".tmp-*")


def _is_abandoned(path: Path) -> bool:
    return bool(_WRITTEN_BY_US.fullmatch(path.name)) and _is_old(path)


def _is_old(path: Path) -> bool:
    """Whether nothing has happened to a file for a day; a rename counts, which the modification time would not show."""
    try:
        return time.time() - path.stat().st_ctime > STALE_SECONDS
    except FileNotFoundError:
        return False
