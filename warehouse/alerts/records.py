"""Events on record: since when each fires, and who was told of it. One file per event, below `GPU_NET_HOME/alerts`.

alerts/<hash>.json    rule, subject, period, what it says, since when, and per channel what became of each message

A sum's event is of its day or month; a state's lasts as long as the state does, and the next time is another episode of it. A
message is `sending` from before it leaves until its answer is on record: a sender that dies in between leaves it so, it may
have arrived, and it is not sent again unless someone asks for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

from warehouse.alerts.conditions import Evaluation, Firing
from warehouse.alerts.kinds import BILL_OPEN
from warehouse.atomic import replaced
from warehouse.digest.records import REFUSED, SENDING, SENT, at_text
from warehouse.home import Home

__all__ = ["BEGUN", "OVER", "REFUSED", "SENDING", "SENT", "Delivery", "Event", "observe", "read_all", "write"]


class RecordError(OSError):
    """A file below `alerts` is no record; the message names it and the remedy."""


#: what a message says of an event
BEGUN, OVER = "begun", "over"
#: ended events are kept so long
DAYS_KEPT = 90


@dataclass(frozen=True)
class Delivery:
    """What became of a message to a channel; `at` is an ISO instant (UTC)."""

    state: str
    at: str
    reply: str = ""


@dataclass(frozen=True)
class Event:
    """Instants are ISO (UTC), `ended_at` empty while it fires. `episode` counts how often its state has begun.

    `is_past`: it ended because its day, its month or its rule did, which is nothing to tell. `deliveries` are by channel and by
    what is told.
    """

    rule: str
    kind: str
    subject: str
    period: str
    says: str
    value: float | None
    limit: float | None
    unit: str | None
    currency: str
    team: str | None
    publication_id: str | None
    since: str
    seen_at: str
    episode: int = 1
    ended_at: str = ""
    is_past: bool = False
    tells_end: bool = False
    notify: Sequence[str] = ()
    deliveries: Mapping[str, Mapping[str, Delivery]] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The same for the same rule, subject and period."""
        return _key(self.rule, self.subject, self.period)

    @property
    def number(self) -> str:
        """Key and episode: by it whoever receives a message twice can tell."""
        return f"{self.key}.{self.episode}"

    @property
    def is_firing(self) -> bool:
        return not self.ended_at

    def delivery(self, channel: str, what: str) -> Delivery | None:
        return self.deliveries.get(channel, {}).get(what)

    def told(self, channel: str, what: str, delivery: Delivery | None) -> Event:
        """With what became of a message; None forgets one that is known not to have left."""
        of_channel = {name: kept for name, kept in self.deliveries.get(channel, {}).items() if name != what}
        if delivery:
            of_channel[what] = delivery
        return replace(self, deliveries={**self.deliveries, channel: of_channel})


def read_all(home: Home) -> list[Event]:
    """Every event on record, those that fire first, the oldest first."""
    events = [_read(path) for path in home.alerts.glob("*.json") if not path.name.startswith(".")]
    return sorted(events, key=lambda event: (not event.is_firing, event.since, event.rule, event.subject))


def write(home: Home, event: Event) -> None:
    """Write the event, on the disk when this returns."""
    with replaced(_path(home, event.key)) as temporary:
        temporary.write_text(json.dumps(asdict(event), indent=2, ensure_ascii=False) + "\n")


def observe(home: Home, evaluation: Evaluation) -> list[Event]:
    """Bring the record in line with what fires now, and return it. For the holder of the lock `alerts` only."""
    at = at_text(evaluation.at)
    known = {event.key: event for event in read_all(home)}
    seen = {}
    for firing in evaluation.firings:
        event = _event(firing, evaluation, at)
        seen[event.key] = _continued(known.get(event.key), event)
    for key, event in known.items():
        if key not in seen and event.is_firing and _is_answered(event, evaluation):
            seen[key] = replace(event, ended_at=at, is_past=_is_past(event, evaluation))
    for key, event in seen.items():
        if known.get(key) != event:
            write(home, event)
    oldest = at_text(evaluation.at - timedelta(days=DAYS_KEPT))
    for key, event in known.items():
        if key not in seen and event.ended_at and event.ended_at < oldest:
            _path(home, key).unlink(missing_ok=True)
    return read_all(home)


def _event(firing: Firing, evaluation: Evaluation, at: str) -> Event:
    rule = firing.rule
    return Event(
        rule=rule.name,
        kind=rule.kind.name,
        subject=firing.subject,
        period=firing.period,
        says=firing.says,
        value=firing.value,
        limit=None if rule.limit is None else float(rule.limit),
        unit=rule.kind.unit,
        currency=rule.currency,
        team=firing.team,
        publication_id=evaluation.publication_id,
        since=at,
        seen_at=at,
        tells_end=rule.tells_end,
        notify=rule.notify,
    )


def _continued(before: Event | None, now: Event) -> Event:
    """The event as it goes on, or as another episode where its state had ended."""
    if before is None:
        return now
    if before.is_firing or before.is_past:
        # a day that is looked at again, after an older version was shown for a while, is no news
        return replace(now, since=before.since, episode=before.episode, deliveries=before.deliveries)
    return replace(now, episode=before.episode + 1)


def _is_answered(event: Event, evaluation: Evaluation) -> bool:
    """Whether it is known that the event does not fire; a rule that cannot be read or asked says nothing."""
    if event.rule in evaluation.undetermined:
        return False
    return event.rule in {rule.name for rule in evaluation.rules} or not evaluation.problems


def _is_past(event: Event, evaluation: Evaluation) -> bool:
    if event.rule not in {rule.name for rule in evaluation.rules}:
        # the rule was taken out: nobody knows whether what it watched has ended
        return True
    day = evaluation.usage_date
    if not event.period or not day:
        return False
    # bills are asked of two months, sums of the day or month that the day is in
    asked = [day, day.replace(day=1) - timedelta(days=1)] if event.kind == BILL_OPEN else [day]
    return not any(str(one).startswith(event.period) for one in asked)


def _path(home: Home, key: str) -> Path:
    return home.alerts / f"{key}.json"


def _key(*parts: str) -> str:
    return sha256("\0".join(parts).encode()).hexdigest()[:24]


def _read(path: Path) -> Event:
    try:
        record = json.loads(path.read_text())
        deliveries = {
            channel: {what: Delivery(**delivery) for what, delivery in told.items()}
            for channel, told in record.pop("deliveries").items()
        }
        return Event(**{**record, "notify": tuple(record["notify"])}, deliveries=deliveries)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise RecordError(f"{path} is no record of an event: move it away, and what fires is told anew") from None


def firing(events: Iterable[Event]) -> list[Event]:
    """Those that fire."""
    return [event for event in events if event.is_firing]
