"""Texts as the tools print them → numbers in the units of the landing shape, or why there is none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from collectors.nvidia_smi.schema import LOST, MISSING, REASON, REASON_BITS, UNITS

#: unit in lower case → what it measures, and how many of the landing shape's unit it is; MB is MiB in all these tools
_SCALES: Mapping[str, tuple[str, float]] = {
    "%": ("ratio", 0.01),
    "b": ("bytes", 1),
    "bytes": ("bytes", 1),
    **dict.fromkeys(("kib", "kb"), ("bytes", 1 << 10)),
    **dict.fromkeys(("mib", "mb"), ("bytes", 1 << 20)),
    **dict.fromkeys(("gib", "gb"), ("bytes", 1 << 30)),
    "w": ("watts", 1),
    "mw": ("watts", 1e-3),
    "kw": ("watts", 1e3),
    "mhz": ("megahertz", 1),
    "ghz": ("megahertz", 1e3),
    "c": ("celsius", 1),
    "°c": ("celsius", 1),
    "j": ("joules", 1),
    "uj": ("joules", 1e-6),
    "kj": ("joules", 1e3),
}
_NUMBER = re.compile(r"\(?([-+]?\d{1,19}(?:\.\d{1,9})?)\s*([^\s\d()]{0,8})\)?")
#: a value is shorter than this
_LONGEST = 200
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]{1,16}")


class UnreadableValueError(ValueError):
    """A text that is neither a number nor one of the ways to say that there is none."""


def read_value(name: str, text: str, unit: str | None = None) -> float | str:
    """The number of field `name` in the landing shape's unit; a reason (`not_supported`, …) where the text holds none.

    The unit is the one behind the number, else `unit` (the header's), else the field's own. Raises UnreadableValueError for
    any other text, and for a unit that measures something else.
    """
    return _read_value(name, text[:_LONGEST], unit)


@lru_cache(maxsize=1 << 16)  # the same few texts come again and again
def _read_value(name: str, text: str, unit: str | None) -> float | str:
    reason = missing_reason(text)
    if reason:
        return reason
    match = _NUMBER.fullmatch(text.strip())
    own = UNITS[name].lower()
    found = (match[2] or unit or own).lower() if match else ""
    if match is None or found not in _SCALES or _SCALES[found][0] != _SCALES[own][0]:
        raise UnreadableValueError(
            f"{name}: {text.strip()[:60]!r} is no reading in {unit or UNITS[name]}; are the columns swapped?"
        )
    # exact where the unit is a whole number of the other; 0.29 from 29 %
    dimension, factor = _SCALES[found]
    value = float(match[1])
    return value / 100 if dimension == "ratio" else value * factor


def missing_reason(text: str) -> str | None:
    """Why a text holds no value: one of the known ways to say so, or any other text in brackets; None where it holds one."""
    return _missing_reason(text[:_LONGEST])


@lru_cache(maxsize=1 << 16)
def _missing_reason(text: str) -> str | None:
    bare = text.strip().lower()
    is_bracketed = bare.startswith("[") and bare.endswith("]")
    bare = bare.strip("[] ") if is_bracketed else bare
    if bare.startswith(("not available", "not supported")):
        return "not_supported"  # … in WDDM driver model
    return MISSING.get(bare, "gap" if is_bracketed else None)


def is_lost(text: str) -> bool:
    """Whether NVML answered that the GPU is lost."""
    return text.strip().strip("[]").lower() == LOST


def read_text(texts: Mapping[str, str], name: str) -> str | None:
    """The field's text, None where it is not there or says that there is none."""
    text = texts.get(name, "").strip()
    return None if missing_reason(text) else text


def read_whole(text: str | None) -> int | None:
    """A small number, None for anything else."""
    text = (text or "").strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def read_reasons(texts: Mapping[str, str]) -> int | str | None:
    """NVML's mask of the clock event reasons: printed as such, else put together from those that are told one by one.

    A reason for its absence where all say there is none; None where none of them is printed.
    """
    active = texts.get(f"{REASON}active")
    if active is not None and not missing_reason(active):
        if not _HEXADECIMAL.fullmatch(active.strip()):
            raise UnreadableValueError(f"{REASON}active: {active.strip()[:60]!r} is no bit mask such as 0x0000000000000004")
        mask = int(active, 16)
        # bit 63 says that the reason is unknown, and fits no column
        return mask & (1 << 63) - 1 if mask != 1 << 63 else "not_supported"
    told = {bit: texts[f"{REASON}{name}"] for name, bit in REASON_BITS.items() if f"{REASON}{name}" in texts}
    known = {bit: text.strip().lower() for bit, text in told.items() if not missing_reason(text)}
    strange = next((text for text in known.values() if text not in ("active", "not active")), None)
    if strange is not None:
        raise UnreadableValueError(f"{REASON}…: {strange[:60]!r} is neither Active nor Not Active")
    if known:
        return sum(bit for bit, text in known.items() if text == "active")
    first = active if active is not None else next(iter(told.values()), None)
    return None if first is None else missing_reason(first)
