"""`sonar ps` as CSV: without names (up to 0.6), and as `name=value` cells (0.7 and later), into snapshots."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from collectors.sonar.schema import GPUINFO, KIBIBYTE, Field
from collectors.sonar.snapshots import Card, Process, Snapshot, Use
from warehouse.landing.conform import MALFORMED, Reject, redact

#: cells without names stand in this order; the last four are left out where the version knows no GPUs
UNTAGGED = ("time", "host", "cores", "user", "job", "cmd", "cpu%", "cpukib", "gpus", "gpu%", "gpumem%", "gpukib")
#: an epoch is told from here on: without one the job is a batch system's
EPOCH_SINCE = (0, 14)
MOST_CARDS = 64

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
#: what 0.6 writes where it cannot tell on which cards a process is
_UNKNOWN_MASK = "1" * 32


def is_tagged(first: str) -> bool:
    return re.match(r'"?v=\d', first) is not None and re.search(r'(?:^|,)"?(?:time|host)=', first) is not None


def is_untagged(first: str) -> bool:
    cells = first.split(",")
    return len(cells) in range(8, len(UNTAGGED) + 1) and _TIME.match(cells[0]) is not None and cells[2].isdecimal()


def read(text: str, file: str, *, is_batch: bool) -> tuple[list[Snapshot], list[Reject]]:
    """A snapshot per node and instant; a line that cannot be read is a reject.

    `is_batch` says whether jobs of versions that do not tell are a batch system's.
    """
    found: dict[tuple[str, datetime], Snapshot] = {}
    rejects: list[Reject] = []
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.rstrip("\r")
        if not line.strip():
            continue
        try:
            cells = next(csv.reader([line], strict=True))
            fields = _tagged(cells) if is_tagged(line) or "=" in cells[0] else _untagged(cells)
            snapshot = _snapshot(fields, number)
            known = found.setdefault((snapshot.node, snapshot.at), snapshot)
            _add(known, fields, is_batch)
        except (csv.Error, ValueError, KeyError, OverflowError) as error:
            detail = f"no {error} given" if isinstance(error, KeyError) else str(error)
            rejects.append(Reject(file, number, MALFORMED, detail, redact(line[:2000])))
    return list(found.values()), rejects


def _tagged(cells: Sequence[str]) -> dict[str, str]:
    pairs = [cell.partition("=") for cell in cells]
    if not all(equals for _, equals, _ in pairs):
        raise ValueError("a cell is no name=value; one that holds a comma stands in quotes")
    return {name: value for name, _, value in pairs}


def _untagged(cells: Sequence[str]) -> dict[str, str]:
    if not 8 <= len(cells) <= len(UNTAGGED):
        raise ValueError(f"{len(cells)} cells where 8 to {len(UNTAGGED)} belong: the line is not whole")
    fields = dict(zip(UNTAGGED, cells, strict=False))
    mask = fields.pop("gpus", "0")
    if not re.fullmatch(f"[01]{{1,{MOST_CARDS}}}", mask):
        raise ValueError(f"{mask[:40]!r} is no GPU mask: binary text, 100 is card 2; has a spreadsheet changed it?")
    cards = [place for place, bit in enumerate(reversed(mask)) if bit == "1"]
    fields["gpus"] = "unknown" if mask == _UNKNOWN_MASK else ",".join(map(str, cards)) or "none"
    return fields


def _snapshot(fields: Mapping[str, str], line: int) -> Snapshot:
    try:
        at = datetime.fromisoformat(fields["time"])
    except ValueError:
        raise ValueError(f"{fields['time'][:40]!r} is no time") from None
    if at.tzinfo is None:
        raise ValueError(f"{fields['time'][:40]!r} has no offset: it is no time of sonar's")
    if not fields["host"]:
        raise KeyError("host")
    return Snapshot(fields["host"], at.astimezone(UTC).replace(tzinfo=None), line)


def _add(snapshot: Snapshot, fields: Mapping[str, str], is_batch: bool) -> None:
    if fields.get("gpuinfo"):
        snapshot.join(Snapshot(snapshot.node, snapshot.at, snapshot.line, cards=_cards(fields["gpuinfo"])))
    snapshot.has_failed = snapshot.has_failed or fields.get("gpufail", "0") not in ("", "0")
    epoch = _whole(fields.get("epoch", "0"))
    tells_epoch = tuple(int(part) for part in re.findall(r"\d+", fields.get("v", ""))[:2]) >= EPOCH_SINCE
    snapshot.add(
        Process(
            job=_whole(fields.get("job", "0")),
            pid=_whole(fields.get("pid", "0")),
            parent=_whole(fields.get("ppid", "0")),
            user=fields.get("user", ""),
            command=fields.get("cmd", ""),
            epoch=epoch,
            is_batch=epoch == 0 if tells_epoch else is_batch,
            uses=uses_of(fields),
        )
    )


def uses_of(fields: Mapping[str, str]) -> dict[int, Use]:
    """What a process does on each of its cards: the figures are sums over them, taken as even."""
    told = fields.get("gpus", "none")
    if told in ("none", "unknown", ""):
        return {}
    cards = sorted({_whole(card) for card in told.split(",")})
    if cards[-1] >= MOST_CARDS:
        raise ValueError(f"{told[:40]!r} is no list of cards")
    percent, share = _number(fields.get("gpu%", "0")), _number(fields.get("gpumem%", "0")) or 0.0
    kibibytes = _whole(fields.get("gpukib", "0"))
    use = Use(
        utilization_ratio=percent / 100 / len(cards) if percent is not None else None,
        memory_bytes=kibibytes * KIBIBYTE // len(cards) if kibibytes or not share else None,
        memory_ratio=share / 100 / len(cards),
    )
    return dict.fromkeys(cards, use)


def _cards(text: str) -> dict[int, Card]:
    """`fan%=40|40,musekib=9503680|,cutil%=78|58`: an array per field, in card order; what is zero is left out."""
    arrays = {name: values.split("|") for name, _, values in (part.partition("=") for part in text.split(","))}
    count = max(len(values) for values in arrays.values())
    if count > MOST_CARDS:
        raise ValueError(f"gpuinfo of {count} cards is none of one node")
    return {
        index: card({name: values[index] for name, values in arrays.items() if index < len(values)}, GPUINFO, index, None)
        for index in range(count)
    }


def card(values: Mapping[str, object], schema: Mapping[str, Field], index: int, uuid: str | None) -> Card:
    """A card's readings; ValueError where one is no number."""
    readings: dict[str, float] = {}
    missing: dict[str, str] = {}
    for name, field in schema.items():
        text = str(values.get(name, "") or "0")
        number = float(text)
        if field.zero_is_missing and number == 0:
            missing[field.column] = "not_supported"
        else:
            readings[field.column] = number * field.factor if field.factor < 1 else number * int(field.factor)
    return Card(index, uuid, readings, missing)


def _whole(text: str) -> int:
    if not re.fullmatch(r"\d{1,18}", text.strip()):
        raise ValueError(f"{text[:40]!r} is no whole number")
    return int(text)


def _number(text: str) -> float | None:
    """A finite number of at least 0; None for NaN and the like, which sonar wrote before 0.8."""
    number = float(text)
    return number if math.isfinite(number) and number >= 0 else None
