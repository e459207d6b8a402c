"""Values in Slurm's JSON, whose layout changes with every `data_parser` version (v0.0.36 of 20.11 to v0.0.43 of 25.05).

A number may be plain, null, NO_VAL, or `{"set": true, "infinite": false, "number": 5}`; a state or a status may be a list.
"""

from __future__ import annotations

from typing import Any

#: NO_VAL and INFINITE in 32 and 64 bit: "not set", "no limit"
_NO_VALUES = frozenset({0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFE, 0xFFFFFFFFFFFFFFFF})


def dig(value: Any, *keys: str) -> Any:
    """The value under these keys, None where one of them is not there."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def as_text(value: Any) -> str:
    """A scalar as text; empty for null, for a number that is not set and for one without limit."""
    if isinstance(value, dict):
        if not value.get("set", True) or value.get("infinite"):
            return ""
        value = value.get("number")
    if value is None or isinstance(value, list | dict | bool) or value in _NO_VALUES:
        return ""
    return str(value)


def first_text(value: Any) -> str:
    """A state that is a text, or the first of a list (the others are flags such as REQUEUED or COMPLETING)."""
    return as_text(value[0] if isinstance(value, list) and value else value)


def texts(value: Any) -> list[str]:
    """A list of texts, or a text as a list of one; empty texts left out."""
    return [text for item in (value if isinstance(value, list) else [value]) if (text := as_text(item))]


def release(document: Any) -> str | None:
    """Who wrote the document: `slurm 23.11.10`."""
    meta = dig(document, "meta")
    slurm = dig(meta, "slurm") or dig(meta, "Slurm")
    found = as_text(dig(slurm, "release"))
    return f"slurm {found}" if found else None
