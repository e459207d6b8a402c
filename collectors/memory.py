"""What a collector read last, kept between calls: a scrape gives counters, and only two of them say what happened.

    $GPU_NET_HOME/state/<source>/<cluster>-<hash of the target>.json

A reading that was landed counts from the moment its landing is committed: the file is written before the landing with the
landing's id, and an entry whose landing never was committed is passed over, as if it had not been written. So a call that
is killed between the two leaves what it found, and the next one counts from the same reading as it would have. A few
readings of each series are kept, the ones written last, so that landing a saved scrape again finds the same reading before
it as the first time.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from collectors.command import SourceFailedError
from warehouse.atomic import replaced
from warehouse.home import Home
from warehouse.landing.outcomes import is_committed

#: readings kept of one series, and as many of a landing that is not committed yet
KEPT = 4
#: a series without a reading for so long before the newest one of its memory is forgotten: its device or server is gone
FORGOTTEN_AFTER = timedelta(days=35)
#: another call on the same target ends within this time, or hangs
WAIT_SECONDS = 60.0


@dataclass(frozen=True)
class Remembered:
    """One reading of one series (a GPU, a server): counter → value at `at`, naive UTC.

    `run_id` is the landing that holds its rows; None where it was kept back to be landed with the next reading.
    """

    at: datetime
    values: Mapping[str, float]
    run_id: str | None


@dataclass
class Memory:
    """The readings kept of one target's series. Open it with `remembering`, which holds its lock."""

    home: Home
    source: str
    path: Path
    series: dict[str, list[Remembered]] = field(default_factory=dict)
    _committed: dict[str, bool] = field(default_factory=dict)

    def before(self, series: str, at: datetime) -> list[Remembered]:
        """The series' kept readings earlier than `at`, in time order: committed ones, and those kept back."""
        found = {reading.at: reading for reading in self._kept(series) if reading.at < at}
        return [found[instant] for instant in sorted(found)]

    def note(self, series: str, readings: Sequence[Remembered]) -> None:
        """Keep the readings beside those that count until now; a later one of the same instant stands over it."""
        added = sorted(readings, key=lambda reading: reading.at)[-KEPT:]
        runs = {reading.run_id for reading in added}
        # what a landing that never was committed left goes; what was committed stays until the new one is
        kept = [reading for reading in self._kept(series) if reading.run_id is None or reading.run_id not in runs]
        instants = {reading.at for reading in added if reading.run_id is None}
        self.series[series] = [*(reading for reading in kept if reading.at not in instants)][-KEPT:] + added

    def save(self) -> None:
        """Write the file, whole or not at all."""
        newest = max((reading.at for readings in self.series.values() for reading in readings), default=None)
        document = {
            name: [{"at": reading.at.isoformat(), "values": dict(reading.values), "run": reading.run_id} for reading in readings]
            for name, readings in sorted(self.series.items())
            if newest is None or any(newest - reading.at <= FORGOTTEN_AFTER for reading in readings)
        }
        with replaced(self.path) as temporary:
            temporary.write_text(json.dumps(document))

    def _kept(self, series: str) -> list[Remembered]:
        return [reading for reading in self.series.get(series, []) if self._counts(reading)]

    def _counts(self, reading: Remembered) -> bool:
        if reading.run_id is None:
            return True
        if reading.run_id not in self._committed:
            self._committed[reading.run_id] = is_committed(self.home.raw, self.source, reading.run_id)
        return self._committed[reading.run_id]


@contextmanager
def remembering_each(home: Home, source: str, cluster: str, targets: Iterable[str]) -> Iterator[dict[str, Memory]]:
    """Target → its memory, of several targets that are landed together; `remembering` for one."""
    with ExitStack() as held:
        # in one order for every caller, or two of them could wait for each other
        memories = {
            target: held.enter_context(remembering(home, source, cluster, target)) for target in sorted(dict.fromkeys(targets))
        }
        committed: dict[str, bool] = {}
        for memory in memories.values():
            memory._committed = committed  # the same few landings, looked up once
        yield memories


@contextmanager
def remembering(home: Home, source: str, cluster: str, target: str) -> Iterator[Memory]:
    """The memory of what was read of `target` (an address without credentials; `files`), for one caller at a time."""
    name = f"{re.sub(r'[^A-Za-z0-9.-]+', '_', cluster)[:60]}-{hashlib.sha256(f'{cluster}/{target}'.encode()).hexdigest()[:12]}"
    path = home.create().state / source / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(f"{path}.lock", timeout=WAIT_SECONDS):
            yield Memory(home, source, path, _read(path))
    except Timeout:
        raise SourceFailedError(f"{source}: another call reads {target} and does not end; end it, then run this again") from None


def _read(path: Path) -> dict[str, list[Remembered]]:
    """The file's readings. One that cannot be read is as none: the next scrape begins anew, as it would without it."""
    try:
        document = json.loads(path.read_text())
        return {str(name): [_remembered(entry) for entry in entries] for name, entries in document.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _remembered(entry: Mapping[str, Any]) -> Remembered:
    values = {str(name): float(value) for name, value in entry["values"].items()}
    return Remembered(datetime.fromisoformat(entry["at"]), values, entry["run"])
