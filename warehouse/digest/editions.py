"""Who gets which edition: the fleet's, or one team's. `config/digest_recipients.csv` has the columns `recipient,edition`.

    recipient,edition
    gpu-leads@example.com,fleet
    research@example.com,team:research

A team's edition is made of that team's workloads alone: their time, money, ghosts, unit costs, and the telemetry of the
clusters they ran in. Of the fleet it says when the data end and whether a newer build is held; no other team's workloads,
no capacity that nobody held, no bill.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.errors import MessageError
from email.headerregistry import Address
from pathlib import Path

from warehouse.digest.words import NOBODY, clean
from warehouse.home import Home

RECIPIENTS = "digest_recipients.csv"
COLUMNS = ("recipient", "edition")
FLEET = "fleet"
_TEAM = "team:"


class RecipientsError(ValueError):
    """The recipients cannot be read; the message names file, line and remedy."""


@dataclass(frozen=True, order=True)
class Edition:
    """`team` is None for the fleet's edition."""

    team: str | None = None

    @classmethod
    def parse(cls, text: str) -> Edition:
        """Raises ValueError where `text` is neither `fleet` nor `team:<name>`."""
        if text == FLEET:
            return cls()
        team = text.removeprefix(_TEAM).strip()
        if not text.startswith(_TEAM) or not team:
            raise ValueError(f"{clean(text)!r} is no edition: write `fleet` or `team:<name>`")
        if team == NOBODY:
            raise ValueError(f"`{NOBODY}` is no team: time that nobody holds is in the edition `fleet`")
        return cls(team)

    def __str__(self) -> str:
        return FLEET if self.team is None else f"{_TEAM}{self.team}"

    @property
    def file_name(self) -> str:
        """A name that no team can make a path, or another team's, of."""
        if self.team is None:
            return FLEET
        from hashlib import sha256

        shown = re.sub(r"[^A-Za-z0-9._-]+", "-", self.team)[:40].strip("-.")
        is_same = shown == self.team
        return f"team-{shown}" if is_same else f"team-{shown}-{sha256(self.team.encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class Recipient:
    address: str
    edition: Edition


def recipients_path(home: Home) -> Path:
    return home.config / RECIPIENTS


def read_recipients(home: Home) -> tuple[list[Recipient], list[str]]:
    """The recipients, and a line for each row that names none; no file is nobody. One who stands twice gets one mail.

    Raises RecipientsError where the file is no such table at all.
    """
    path = recipients_path(home)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return [], []
    except (UnicodeDecodeError, OSError) as error:
        raise RecipientsError(f"{path}: {error}; it is a CSV in UTF-8 with the columns {','.join(COLUMNS)}") from None
    found: dict[tuple[str, Edition], Recipient] = {}
    refused = []
    for line, row in _rows(path, text):
        try:
            recipient = Recipient(parse_address(row["recipient"]), Edition.parse(row["edition"]))
        except ValueError as error:
            refused.append(f"{path}, line {line}: {error}")
        else:
            found.setdefault((recipient.address.lower(), recipient.edition), recipient)
    return list(found.values()), refused


def _rows(path: Path, text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Line number and cells of each row; blank lines and lines that begin with `#` are none."""
    reader = csv.reader(text.splitlines(keepends=True), strict=True)
    names: list[str] | None = None
    try:
        for cells in reader:
            values = [cell.strip() for cell in cells]
            if not any(values) or values[0].startswith("#"):
                continue
            if names is None:
                names = [value.lower() for value in values]
                if missing := set(COLUMNS) - set(names):
                    raise RecipientsError(f"{path}, line {reader.line_num}: no column {', '.join(sorted(missing))}")
                continue
            yield reader.line_num, dict.fromkeys(names, "") | dict(zip(names, values, strict=False))
    except csv.Error as error:
        raise RecipientsError(f"{path}, line {reader.line_num}: {error}") from None


def parse_address(text: str) -> str:
    """The address, without a display name; raises ValueError where it is none that a mail can be sent to."""
    problem = f"{clean(text)!r} is no mail address: write name@example.com"
    if not text.isascii() or not text.isprintable() or len(text) > 254:
        raise ValueError(problem)
    try:
        address = Address(addr_spec=text)
    except (MessageError, ValueError, IndexError):
        raise ValueError(problem) from None
    if not address.username or not re.fullmatch(r"[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]", address.domain):
        raise ValueError(problem)
    return address.addr_spec
