"""Parse single values as the landing shape says: pure functions from what a source wrote to what a column holds.

Each raises ValueError (or another of `NOT_PARSED`) with a text that names the value and the remedy.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from warehouse.landing.masking import pseudonym, redact

__all__ = ["NOT_PARSED", "PARSERS", "parse_instant", "pseudonym", "redact"]

#: what a parser below may raise for a value that it cannot read
NOT_PARSED = (ValueError, TypeError, ArithmeticError, KeyError, RecursionError)

_EXAMPLE = "write 2026-11-01T00:00:00Z"
#: wide enough for `decimal(38,12)`; the default context would refuse amounts of 17 digits and more
_MONEY = Context(prec=60)
_LARGEST_AMOUNT = Decimal(10) ** 26
_MOST_NODES = 100_000


def parse_instant(text: str) -> datetime:
    """ISO 8601 with an offset, or a date (UTC midnight), as a naive UTC datetime; ValueError tells the remedy."""
    text = text.strip()
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        return datetime.fromisoformat(text)
    if not re.match(r"\d{4}-\d{2}-\d{2}[T ]", text):
        raise ValueError(f"{text!r} is no ISO 8601 instant; {_EXAMPLE}")
    try:
        instant = datetime.fromisoformat(re.sub(r" ?UTC$", "Z", text))
    except ValueError:
        raise ValueError(f"{text!r} is no ISO 8601 instant; {_EXAMPLE}") from None
    if instant.tzinfo is None:
        raise ValueError(f"{text!r} has no offset; write {text.replace(' ', 'T')}Z if it is UTC")
    return instant.astimezone(UTC).replace(tzinfo=None)


def _text(value: Any) -> str | None:
    if isinstance(value, bytes):
        return value.decode().strip() or None
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))  # an id that a data frame made a double for the sake of its nulls
    return str(value).strip() or None


def _integer(value: Any) -> int:
    if isinstance(value, bool):
        return int(value)
    text = str(value).strip()
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{text!r} is no whole number") from None
    if "_" in text or not number.is_finite() or abs(number) >= 2**63 or number != number.to_integral_value():
        raise ValueError(f"{text!r} is no whole number")
    return int(number)


def _double(value: Any) -> float:
    try:
        number = float(value)
    except ValueError:
        raise ValueError(f"{value!r} is no number") from None
    if not math.isfinite(number) or "_" in str(value):
        raise ValueError(f"{value!r} is no finite number")
    return number


def _money(value: Any) -> Decimal | None:
    text = repr(value) if isinstance(value, float) else str(value).strip()
    if text.lower() == "null":
        return None
    try:
        amount = Decimal(text)
        if "_" in text or not amount.is_finite() or abs(amount) >= _LARGEST_AMOUNT:
            raise InvalidOperation
        return amount.quantize(Decimal("1e-12"), context=_MONEY)
    except InvalidOperation:
        raise ValueError(f"{text!r} is no amount of up to 26 digits before the point") from None


def _boolean(value: Any) -> bool:
    text = str(value).strip().lower()
    if text in ("true", "t", "1", "yes", "1.0"):
        return True
    if text in ("false", "f", "0", "no", "0.0"):
        return False
    raise ValueError(f"{value!r} is neither true nor false")


def _timestamp(value: Any) -> datetime:
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no ISO 8601 instant; {_EXAMPLE}")
    return parse_instant(value)


def _json(value: Any) -> str:
    if isinstance(value, str):
        json.loads(value)
        return value.strip()
    return json.dumps(value, sort_keys=True, default=str, ensure_ascii=False)


def _histogram(value: Any) -> list[dict[str, float]]:
    buckets = json.loads(value) if isinstance(value, str) else value
    if not isinstance(buckets, list) or not all(isinstance(bucket, Mapping) for bucket in buckets):
        raise ValueError("a histogram is a list of {le_seconds, count}")
    parsed = [{"le_seconds": float(bucket["le_seconds"]), "count": float(bucket["count"])} for bucket in buckets]
    if any(math.isnan(bucket["le_seconds"]) or not 0 <= bucket["count"] < math.inf for bucket in parsed):
        raise ValueError("a histogram's bounds are numbers or +Inf, its counts are finite and not below 0")
    return sorted(parsed, key=lambda bucket: bucket["le_seconds"])


def _node_list(value: Any) -> str:
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    try:
        # without a resolver, or `@all` would ask this machine's ClusterShell configuration
        nodes = NodeSet(str(value), resolver=RESOLVER_NOGROUP)
        if len(nodes) > _MOST_NODES:
            raise ValueError(f"{value!r} names {len(nodes)} nodes, more than {_MOST_NODES}")
        return ",".join(nodes)
    except (NodeSetException, AssertionError) as error:
        raise ValueError(f"{value!r} is no node list: {error}") from None


#: kind of a column → how one value of it is read; readings of a device are read by `warehouse.landing.readings`
PARSERS: Mapping[str, Callable[[Any], Any]] = {
    "text": _text,
    "user": lambda value: pseudonym(_text(value) or ""),
    "node_list": _node_list,
    "json": _json,
    "integer": _integer,
    "double": _double,
    "boolean": _boolean,
    "money": _money,
    "timestamp": _timestamp,
    "histogram": _histogram,
}
