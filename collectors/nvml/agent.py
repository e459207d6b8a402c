"""The agent: on each tick of the grid it asks the readers, reads the host, and spools what it is told; it lands now and then.

This process and its readers stay; so neither loads more than the standard library, click and pynvml.
"""

from __future__ import annotations

import os
import selectors
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collectors.nvml import spool
from collectors.nvml.grid import Grid, Tick, milliseconds_of, reach_ms, text_of
from collectors.nvml.host import HostSeries
from collectors.nvml.lander import Lander
from collectors.nvml.readers import Message, Readers
from collectors.nvml.sample import Device, Fleet, Row
from collectors.nvml.timeline import Timeline
from warehouse.home import Home
from warehouse.landing.values import parse_instant

#: answers that come within this time after the request are taken in one go
GATHER_SECONDS = 0.02
#: the card's description (limits, clocks set by hand) is asked for this often
DESCRIBE_MS = 60_000
#: at the end, what is spooled has this long to land; it lands at the next start otherwise
FAREWELL_SECONDS = 60.0
#: in one spool: a card that floods its log must not fill the disk
MOST_NOTES = 500


@dataclass(frozen=True)
class Settings:
    cluster: str
    node: str
    interval_ms: int
    process_ms: int
    land_ms: int
    as_json: bool = False

    @property
    def patience(self) -> float:
        """Seconds after which a GPU that does not answer hangs."""
        return min(5.0, max(0.5, self.interval_ms / 2000))


class Agent:
    """One per host. `run` returns the exit code: 0 when all it has read has landed."""

    def __init__(self, settings: Settings, home: Home) -> None:
        self.settings = settings
        self._folder = spool.folder_of(home, settings.cluster, settings.node)
        self._selector = selectors.DefaultSelector()
        self._readers = Readers(self._selector, settings.patience)
        self._grid = Grid(settings.interval_ms)
        self._fleet = Fleet(settings.interval_ms)
        self._stopping, self._is_first = False, True
        self._spool: spool.Spool | None = None
        self._host = HostSeries(settings.interval_ms, round(time.time() * 1000))
        self._stretch = 0
        self._told_at: int | None = None
        self._trouble_since: int | None = None
        self._trouble = ""
        self._kept: list[Any] = []
        self._noted: set[str] = set()
        self._late: list[int] = []
        self._missed = 0
        self._lander = Lander(self._folder, settings.node, settings.land_ms, settings.as_json)

    def run(self) -> int:
        """Read until SIGTERM or SIGINT."""
        held = spool.lock(self._folder)
        if held is None:
            print(f"nvml: another agent reads {self.settings.node}; end it first, or use --once", file=sys.stderr)
            return 1
        self._listen()
        self._restore()
        if spool.spools(self._folder):
            self._lander.plan(now=True)
        self._readers.start()
        while not self._stopping:
            self._grid.plan()
            while not self._stopping and (remaining := self._grid.remaining()) > 0:
                self._take(self._readers.wait(remaining))
            if not self._stopping and (tick := self._grid.arrive()):
                self._tick(tick)
        return self._leave()

    def _tick(self, tick: Tick) -> None:
        settings = self.settings
        self._begin_spool(tick.at)
        if tick.late_ms > max(250, settings.interval_ms // 10):
            self._late.append(tick.late_ms)
        self._missed += tick.missed
        if tick.stepped_ms:
            self._note(
                f"the clock was set {'forward' if tick.stepped_ms > 0 else 'back'} by {abs(tick.stepped_ms) / 1000:g} s "
                f"before {text_of(tick.at)}",
                is_rewound=tick.stepped_ms < -reach_ms(settings.interval_ms),
            )
        is_first, self._is_first = self._is_first, False
        self._readers.ask(
            tick.at,
            describe=is_first or self._is_due(tick.at, DESCRIBE_MS),
            # who holds a GPU changes with jobs, not with seconds; a minute is the grain of the states (semantics 4)
            with_processes=is_first or self._is_due(tick.at, settings.process_ms),
        )
        self._write(self._fleet.tick(tick.at, tick.stepped_ms, self._readers.pending))
        if row := self._host.read(tick):
            self._line("node_samples", row)
        self._watch_driver(tick.at)
        for note in self._lander.watch(self._spool.path if self._spool else None):
            self._note(note)
        self._told_at = tick.at
        if self._spool and self._spool.trouble:
            self._note(f"the spool cannot be written ({self._spool.trouble}); rows wait in memory")
        time.sleep(min(GATHER_SECONDS, settings.interval_ms / 20_000))

    def _is_due(self, at: int, period_ms: int) -> bool:
        """Whether a new period of the clock has begun since the tick before."""
        return at // period_ms != (at - self.settings.interval_ms) // period_ms

    def _take(self, messages: Iterable[Message]) -> None:
        for message in messages:
            if "status" in message:
                self._write(self._fleet.answer(message))
                if message.get("detail"):
                    self._note(f"GPU {message['index']}: {message['detail']}")
                for xid in message.get("xids", ()):
                    self._note(f"GPU {message['index']}: XID {xid} before {text_of(message['at'])}")
            elif "fleet" in message:
                self._fleet.open(message["fleet"], message["skipped"])
                for device in self._fleet.devices.values():
                    if not device.is_listed:
                        self._note(f"{device.uuid}: the driver does not list it any more; it counts as lost")
            elif "note" in message:
                self._note(message["note"])
        known = [(device.uuid, device.index, device.described, device.is_lost) for device in self._fleet.devices.values()]
        if known != self._kept:
            self._keep()
            self._kept = known

    def _watch_driver(self, at: int) -> None:
        """While no driver answers, its GPUs are unobserved; the stretch is told in the outcome, since none may be known."""
        if self._readers.trouble is not None:
            if self._trouble_since is None:
                self._trouble_since = at - self.settings.interval_ms
            self._trouble = self._readers.trouble
            self._write(self._fleet.no_driver(at))
        else:
            self._end_trouble(at - self.settings.interval_ms)

    def _end_trouble(self, until: int) -> None:
        if self._trouble_since is not None and until > self._trouble_since:
            what = f"{text_of(self._trouble_since)}/{text_of(until)}"
            self._line("hole", {"what": what, "why": self._trouble, "driver": self._readers.driver})
        self._trouble_since = None

    def _begin_spool(self, at: int) -> None:
        """A spool for each stretch of `land_ms` on the clock; each begins with the whole inventory."""
        stretch = (at - 1) // self.settings.land_ms
        if self._spool is not None and stretch == self._stretch:
            return
        since = at - self.settings.interval_ms
        if self._spool is not None and self._told_at is not None:
            self._end_spool(self._told_at)
            self._lander.plan()
            since = self._told_at if self._told_at < at else since
        header: dict[str, Any] = {"cluster": self.settings.cluster, "node": self.settings.node, "from": text_of(since)}
        header |= {"interval_ms": self.settings.interval_ms, "driver": self._readers.driver}
        self._spool, self._stretch = spool.Spool(self._folder, header), stretch
        self._noted.clear()
        self._write(self._fleet.inventory(at))

    def _end_spool(self, until: int) -> None:
        assert self._spool is not None
        is_in_trouble = self._trouble_since is not None
        self._end_trouble(until)
        self._trouble_since = until if is_in_trouble else None
        for index, why in self._fleet.nameless.items():
            self._line("hole", {"what": f"GPU {index}", "why": f"lost, and its UUID is not known {why}".strip()})
        if self._late or self._missed:
            worst = f", the worst by {max(self._late) / 1000:g} s" if self._late else ""
            self._note(f"{len(self._late)} readings were late{worst}; {self._missed} were missed")
        self._late, self._missed = [], 0
        self._spool.close(text_of(until))
        self._keep()

    def _leave(self) -> int:
        """Tell what is left, end the readers, land everything."""
        # what was asked for at the last tick is on its way, unless a GPU hangs
        deadline = time.monotonic() + self.settings.patience
        while self._readers.is_asked and (remaining := deadline - time.monotonic()) > 0:
            self._take(self._readers.wait(remaining))
        self._readers.close()
        if self._spool is not None and self._told_at is not None:
            self._write(self._fleet.close(self._told_at))
            self._end_spool(self._told_at)
            self._spool = None
        if self._lander.finish(FAREWELL_SECONDS):
            return 0
        print(f"nvml: not all has landed; it lies in {self._folder} and lands at the next start", file=sys.stderr)
        return 1

    def _write(self, rows: Iterable[Row]) -> None:
        if self._spool is not None:
            self._spool.write(rows)

    def _line(self, kind: str, content: dict[str, Any]) -> None:
        if self._spool is not None:
            self._spool.write([(kind, content)])

    def _note(self, text: str, *, is_rewound: bool = False) -> None:
        """Say it on stderr and in the outcome, once per spool."""
        if text not in self._noted and len(self._noted) < MOST_NOTES:
            self._noted.add(text)
            print(f"nvml: {text}", file=sys.stderr, flush=True)
            self._line("note", {"text": text, **({"is_rewound": True} if is_rewound else {})})

    def _listen(self) -> None:
        """Let a signal end the wait at once."""
        receiver, sender = os.pipe()
        for descriptor in (receiver, sender):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(sender, warn_on_full_buffer=False)
        self._selector.register(receiver, selectors.EVENT_READ, lambda: os.read(receiver, 64))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def _keep(self) -> None:
        spool.save(self._folder, {"boot_id": boot_id(), "devices": [_document(d) for d in self._fleet.devices.values()]})

    def _restore(self) -> None:
        """Know the GPUs of the agent before, and, if this host has run all the time, go on where it stopped."""
        document = spool.load(self._folder)
        is_same_boot = document.get("boot_id") == boot_id()
        # what older spools tell is in the document, which is written when a spool ends
        told = told_in(spool.spools(self._folder)[-1:]) if is_same_boot else {}
        for kept in document.get("devices", ()):
            device = Device(kept["uuid"], kept["index"], kept["described"], read_at=kept["read_at"], is_lost=kept["is_lost"])
            for slot, until in kept["slots"].items():
                until = max(until or 0, told.get((device.uuid, slot), 0)) or None
                device.slots[slot] = Timeline(self.settings.interval_ms, until if is_same_boot else None)
            self._fleet.devices[device.uuid] = device


def boot_id() -> str | None:
    """Changes with each start of the host."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def told_in(paths: Iterable[Path]) -> dict[tuple[str, str], int]:
    """(GPU, slot) → until when the spools of an agent that was killed tell its time, in ms since 1970."""
    told: dict[tuple[str, str], int] = {}
    for path in paths:
        for line in spool.read(path):
            if isinstance(line, tuple) and line[0] == "gpu_samples":
                row = line[1]
                key = (row["gpu_uuid"], row["slot_uuid"] or "")
                until = milliseconds_of(parse_instant(row["interval_start_at"])) + row["interval_ms"]
                told[key] = max(until, told.get(key, 0))
    return told


def _document(device: Device) -> dict[str, Any]:
    return {
        "uuid": device.uuid,
        "index": device.index,
        "described": device.described,
        "read_at": device.read_at,
        "is_lost": device.is_lost,
        "slots": {slot: timeline.told_until for slot, timeline in device.slots.items()},
    }
