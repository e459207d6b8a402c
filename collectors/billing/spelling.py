"""How bills write times, amounts, maps and resource ids, and how they are written when they land."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import Any

#: amounts of 25 digits are added and multiplied whole; the default context would round them at 28
_EXACT = Context(prec=100)
#: a larger or smaller exponent is no amount, and adding it to one would fill the memory with zeros
_MOST_EXPONENT = 60

_NO_OFFSET = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}([.,]\d+)?)?")
_ISO_DATE = re.compile(r"(\d{4})-?(\d{2})-?(\d{2})(?:[T ].*)?")
_US_DATE = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4}|\d{2})(?: .*)?")
_EC2_INSTANCE = re.compile(r"arn:aws[\w-]*:ec2:[^:]*:[^:]*:instance/(i-[0-9a-f]+)", re.IGNORECASE)
_GCE_INSTANCE = re.compile(r"(?:https?:)?//(?:www|compute)\.googleapis\.com/(?:compute/\w+/)?(projects/.+/instances/[^/]+)")
_SCALE_SET = re.compile(r"(.*/virtualMachineScaleSets/([^/]+))/?", re.IGNORECASE)
_E_MAIL = re.compile(r"[^\s@/]+@[^\s@/]+\.[a-z]{2,}", re.IGNORECASE)
#: tags that hold a person by their meaning
_PERSON_TAG = re.compile(r"created_?by|principal_?id|owner_?(e_?)?mail", re.IGNORECASE)


def cell(text: str) -> str | None:
    """The text NULL is null (FOCUS writes it so in CSV), and so is an empty cell."""
    text = text.strip()
    return None if not text or text.upper() == "NULL" else text


def as_text(value: Any) -> str | None:
    """A typed value (Parquet, JSON) as its text; a number keeps all its digits, a map or list is JSON."""
    if value is None or isinstance(value, str):
        return None if value is None else cell(value)
    if isinstance(value, bool | int | float | Decimal):
        return str(value)
    if isinstance(value, bytes):
        return cell(value.decode("utf-8", "replace"))
    if isinstance(value, list) and value and all(isinstance(item, dict) and set(item) == {"key", "value"} for item in value):
        value = {str(item["key"]): item["value"] for item in value}
    return json.dumps(value, sort_keys=True, default=str, ensure_ascii=False)


def instant(text: str) -> str:
    """Times without an offset are UTC, as all providers' bills are: they get their Z.

    What is no ISO 8601 stays, to be rejected with its line.
    """
    return text + "Z" if _NO_OFFSET.fullmatch(text) else text


def us_date(text: str) -> date:
    """A day as Azure writes it: `9/2/2023`, `09/02/2023`, `9/2/23`, ISO 8601 or `20230902`; ValueError at another."""
    if match := _ISO_DATE.fullmatch(text):
        year, month, day = map(int, match.groups())
    elif match := _US_DATE.fullmatch(text):
        month, day, year = map(int, match.groups())
        year += 2000 if year < 100 else 0
    else:
        raise ValueError(f"{text!r} is no day in the order month/day/year or ISO 8601; export the bill again")
    try:
        return date(year, month, day)
    except ValueError:
        raise ValueError(f"{text!r} is no day in the order month/day/year that Azure uses") from None


def midnight(day: date) -> str:
    return f"{day.isoformat()}T00:00:00Z"


def day_after(day: date) -> date:
    try:
        return day + timedelta(days=1)
    except OverflowError:
        raise ValueError(f"{day} has no day after it") from None


def month_of(day: date) -> tuple[date, date]:
    """The first day of the month of `day` and of the next month."""
    first = day.replace(day=1)
    return first, day_after(first.replace(day=28) + timedelta(days=3)).replace(day=1) if first.year < 9999 else first


def day_of(text: str) -> date:
    """The day of an ISO 8601 instant as written; ValueError where it is none."""
    try:
        return date.fromisoformat(text[:10])
    except ValueError:
        raise ValueError(f"{text!r} is no ISO 8601 instant") from None


def utc_text(value: datetime) -> str:
    return value.strftime("%Y-%m-%dT%H:%M:%SZ") if value.year > 999 else f"{value.isoformat()}Z"


def amount(text: str) -> Decimal:
    """An amount with all its digits, also in scientific notation; ValueError where it is none."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("NaN")
    exponent = value.as_tuple().exponent
    if "_" in text or not isinstance(exponent, int) or abs(exponent) > _MOST_EXPONENT or len(text) > 100:
        raise ValueError(f"{text[:100]!r} is no amount")
    return value


def total(*texts: str | None) -> str:
    """The exact sum of amounts; one that is not given is 0."""
    result = Decimal(0)
    for text in texts:
        if text is not None:
            result = _EXACT.add(result, amount(text))
    return str(result)


def difference(text: str, less: str) -> str:
    return str(_EXACT.subtract(amount(text), amount(less)))


def product(left: str | None, right: str | None) -> str | None:
    """The exact product; None where one of the two is not given."""
    return None if left is None or right is None else str(_EXACT.multiply(amount(left), amount(right)))


def is_zero(text: str) -> bool:
    return amount(text) == 0


def json_object(text: str | None) -> Mapping[str, Any] | None:
    """A JSON object, also where the provider left its braces out; None where it is none."""
    for candidate in (text, f"{{{text}}}") if text else ():
        try:
            value = json.loads(candidate)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return value
        if isinstance(value, list) and all(isinstance(item, dict) and {"key", "value"} <= set(item) for item in value):
            return {str(item["key"]): item["value"] for item in value}
    return None


def tags_text(tags: Mapping[str, Any]) -> str | None:
    """Tags as a JSON object, None without any; one that names a person (an e-mail address, `createdBy`) does not land."""
    kept = {name: value for name, value in tags.items() if not _names_a_person(name, value)}
    return json.dumps(kept, default=str, ensure_ascii=False) if kept else None


def _names_a_person(name: str, value: Any) -> bool:
    return bool(_PERSON_TAG.search(name) or (isinstance(value, str) and _E_MAIL.search(value)))


def resource_id(text: str) -> str:
    """The id by which a node knows itself: `i-0abc` of an EC2 instance's ARN, `projects/…` of a Google instance's name.

    All other ids are as the bill writes them.
    """
    match = _EC2_INSTANCE.fullmatch(text) or _GCE_INSTANCE.fullmatch(text)
    return match[1] if match else text


def scale_set_machine(text: str, name: str) -> str:
    """The one machine of an Azure scale set that a bill names beside the set: `aks-pool-vmss_3` is its `…/virtualMachines/3`."""
    match = _SCALE_SET.fullmatch(text)
    if match is None or not name.lower().startswith(f"{match[2].lower()}_"):
        return text
    return f"{match[1]}/virtualMachines/{name[len(match[2]) + 1 :]}"
