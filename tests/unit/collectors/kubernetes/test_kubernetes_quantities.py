"""Kubernetes quantities, by the grammar of apimachinery's quantity.go."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.kubernetes.quantities import parse_quantity


@pytest.mark.parametrize(
    ("written", "number"),
    [
        ("2", "2"),
        (8, "8"),
        ("500m", "0.5"),
        ("1k", "1000"),
        ("1Ki", "1024"),
        ("1.5Gi", "1610612736"),
        ("87527780Ki", "89628446720"),
        ("12e3", "12000"),
        ("12E3", "12000"),
        ("1E", "1000000000000000000"),
        ("1Ei", "1152921504606846976"),
        ("100M", "100000000"),
        ("1e-3", "0.001"),
        ("3n", "0.000000003"),
        ("7u", "0.000007"),
        (".5", "0.5"),
        ("5.", "5"),
        ("+3", "3"),
        (" 4 ", "4"),
        ("0", "0"),
    ],
)
def test_a_quantity_is_read_exactly(written: Any, number: str) -> None:
    assert parse_quantity(written) == Decimal(number)


@pytest.mark.parametrize(
    "written", ["", "x", "1 Gi", "1KI", "1kk", "0x10", "1_000", "nan", "inf", "1e999", "--1", True, None, [], {}]
)
def test_what_is_no_quantity_is_refused_with_an_example(written: Any) -> None:
    with pytest.raises(ValueError, match="no Kubernetes quantity"):
        parse_quantity(written)


def test_a_negative_quantity_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        parse_quantity("-1")


@given(st.text(max_size=60))
def test_any_text_is_a_number_or_refused(text: str) -> None:
    with suppress(ValueError):
        assert parse_quantity(text) >= 0
