"""Read an object's fields whatever stands in them: the saved object may be cut off, written by hand or of another version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from warehouse.landing.conform import parse_instant

#: the time of a fact whose snapshot has not been dated yet
NOT_DATED = datetime(1, 1, 1)
#: Go's zero time, which some writers leave where a time is not known
_ZERO_YEAR = 1


def as_map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def maps(value: Any) -> list[Mapping[str, Any]]:
    """The mappings in a list, whatever else is in it."""
    return [item for item in as_list(value) if isinstance(item, dict)]


def as_text(value: Any) -> str | None:
    """A scalar as text; None for nothing, an empty text, and what is no scalar."""
    if value is None or isinstance(value, dict | list):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).strip() or None


def as_texts(value: Any) -> dict[str, str]:
    """A map of texts (labels, annotations), without the entries that hold none."""
    return {str(name): text for name, entry in as_map(value).items() if (text := as_text(entry)) is not None}


def is_true(value: Any) -> bool:
    return as_text(value) == "true"


def as_number(value: Any) -> float | None:
    """A number written as one, as labels and annotations hold it; None for everything else, and for NaN and infinities."""
    try:
        number = float(as_text(value) or "")
    except ValueError:
        return None
    return number if abs(number) < 1e300 else None


def as_count(value: Any) -> int | None:
    """A whole number of at least 0."""
    number = as_number(value)
    return int(number) if number is not None and number >= 0 and number == int(number) else None


def as_instant(value: Any) -> datetime | None:
    """A time as naive UTC; None for nothing and Go's zero time. Raises ValueError for a text that is no time."""
    text = as_text(value)
    if text is None:
        return None
    try:
        instant = parse_instant(text)
    except OverflowError:
        raise ValueError(f"{text!r} is no time that a calendar has") from None
    return None if instant.year == _ZERO_YEAR else instant


def instants_in(value: Any, depth: int = 8) -> Iterator[datetime]:
    """Every time in a status, at most `depth` levels down; texts that are none are passed over."""
    if isinstance(value, dict) and depth:
        for name, entry in value.items():
            if name != "images":  # a node lists hundreds
                yield from instants_in(entry, depth - 1)
    elif isinstance(value, list) and depth:
        for entry in value:
            yield from instants_in(entry, depth - 1)
    elif isinstance(value, str) and value[4:5] == "-" and value[10:11] == "T":
        try:
            instant = as_instant(value)
        except ValueError:
            return
        if instant:
            yield instant
