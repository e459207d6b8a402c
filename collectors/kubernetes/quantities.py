"""Kubernetes quantities: `500m`, `1k`, `1.5Gi`, `12e3`.

Grammar: apimachinery `pkg/api/resource/quantity.go`, a signed decimal number with one suffix: binary (`Ki` … `Ei`), decimal
(`n`, `u`, `m`, none, `k`, `M`, `G`, `T`, `P`, `E`) or an exponent (`e3`, `E-3`). `1E` is exa, `1E3` is a thousand.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([KMGTPE]i)|([numkMGTPE])|[eE]([+-]?\d{1,2}))?", re.ASCII)
_BINARY = {f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)}
_DECIMAL = {letter: Decimal(10) ** power for letter, power in zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True)}
#: longer than any quantity that an API server writes
_LONGEST = 40


def parse_quantity(value: Any) -> Decimal:
    """The number a quantity stands for, exactly. Raises ValueError where it is none, or negative: a request never is."""
    text = str(value).strip()
    match = None if isinstance(value, bool | dict | list) or len(text) > _LONGEST else _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:_LONGEST]!r} is no Kubernetes quantity; they look like 2, 500m or 16Gi")
    number, binary, decimal, exponent = match.groups()
    factor = _BINARY[binary] if binary else _DECIMAL[decimal] if decimal else Decimal(10) ** int(exponent or 0)
    result = Decimal(number) * factor
    if result < 0:
        raise ValueError(f"{text!r} is negative")
    return result
