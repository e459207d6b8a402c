"""Who was sent what: one file per day, edition and recipient, written before the mail leaves and again when it has.

digests/2026-11-04/sent/<hash>.json    recipient, edition, state, Message-ID, when, what the server said

A sender that dies between the server's yes and its own record leaves the state `sending`: the mail may have arrived, and is
not sent again unless someone asks for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import date, datetime
from hashlib import sha256
from pathlib import Path

from warehouse.atomic import fsync, replaced
from warehouse.digest.editions import Recipient
from warehouse.home import Home

SENDING, SENT, REFUSED = "sending", "sent", "refused"


@dataclass(frozen=True)
class Record:
    """`at` is an ISO instant (UTC); `reply` what the server said last; `copy` counts mails that were asked for again.

    `publication_id` is the version whose figures the mail holds; empty in records of before it was kept.
    """

    recipient: str
    edition: str
    state: str
    message_id: str
    copy: int
    at: str
    reply: str = ""
    publication_id: str = ""


def message_id(day: date, recipient: Recipient, copy: int, domain: str) -> str:
    """The same for the same day, edition and recipient, so that a mail that arrives twice can be told from two mails."""
    number = f".{copy}" if copy > 1 else ""
    return f"<gpu-net.{day}.{_key(recipient)}{number}@{domain}>"


def path_of(home: Home, day: date, recipient: Recipient) -> Path:
    return home.digests / f"{day}" / "sent" / f"{_key(recipient)}.json"


def read(home: Home, day: date, recipient: Recipient) -> Record | None:
    try:
        return _read(path_of(home, day, recipient))
    except FileNotFoundError:
        return None


def write(home: Home, day: date, recipient: Recipient, record: Record) -> None:
    """Write the record, on the disk when this returns."""
    path = path_of(home, day, recipient)
    is_new = not path.parent.exists()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with replaced(path) as temporary:
        temporary.write_text(json.dumps(asdict(record), indent=2) + "\n")
    if is_new:
        for folder in (path.parent.parent, home.digests):
            fsync(folder)


def remove(home: Home, day: date, recipient: Recipient) -> None:
    """Forget an intent whose mail is known not to have left."""
    path = path_of(home, day, recipient)
    path.unlink(missing_ok=True)
    fsync(path.parent)


def of_last_day(home: Home) -> tuple[date, list[Record]] | None:
    """The records of the newest day that has any; None before the first mail."""
    for folder in _newest_first(home):
        if found := list(_all(folder)):
            return date.fromisoformat(folder.parent.name), found
    return None


def last_made_of(home: Home, edition: str, before: date) -> tuple[date, str] | None:
    """Day and version of an edition's last mail for a day before `before` that left, or may have; None before the first."""
    for folder in _newest_first(home):
        day = date.fromisoformat(folder.parent.name)
        found = [one for one in _all(folder) if one.edition == edition and one.state != REFUSED and one.publication_id]
        if day < before and found:
            return day, max(found, key=lambda one: one.at).publication_id
    return None


def versions_in_mails(home: Home) -> set[str]:
    """The versions that the newest mails were made of: the next ones are compared with them, so that they must not expire."""
    for folder in _newest_first(home):
        if made_of := {one.publication_id for one in _all(folder) if one.state != REFUSED and one.publication_id}:
            return made_of
    return set()


def _newest_first(home: Home) -> list[Path]:
    return sorted(home.digests.glob("????-??-??/sent"), reverse=True)


def _all(folder: Path) -> Iterator[Record]:
    for path in sorted(folder.glob("*.json")):
        if not path.name.startswith("."):
            yield _read(path)


def _read(path: Path) -> Record:
    return Record(**json.loads(path.read_text()))


def at_text(instant: datetime) -> str:
    return f"{instant:%Y-%m-%dT%H:%M:%SZ}"


def _key(recipient: Recipient) -> str:
    return sha256(f"{recipient.edition}\0{recipient.address.lower()}".encode()).hexdigest()[:24]
