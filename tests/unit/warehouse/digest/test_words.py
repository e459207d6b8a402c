"""Numbers, reasons and names as a digest writes them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from warehouse.digest import words
from warehouse.home import PROJECT_ROOT


@pytest.mark.parametrize(
    ("gpu_hours", "said"),
    [(0.0, "0.0"), (0.04, "<0.05"), (0.05, "0.1"), (12.34, "12.3"), (1234567.0, "1,234,567.0"), (-0.01, "−<0.05")],
)
def test_hours_have_one_decimal_and_little_is_not_nothing(gpu_hours: float, said: str) -> None:
    assert words.hours(gpu_hours) == said


@pytest.mark.parametrize(
    ("price", "said"),
    [
        ("0", "0.00"),
        ("0.043158", "0.04316"),
        ("0.000018", "0.000018"),
        ("1.132535", "1.133"),
        ("13.8889", "13.89"),
        ("1234.5", "1,234.50"),
    ],
)
def test_a_unit_price_has_four_significant_digits_and_two_decimals_at_least(price: str, said: str) -> None:
    assert words.unit_price(Decimal(price)) == said


@pytest.mark.parametrize(("change", "said"), [(0.0123, "+1.2 points"), (-0.0923, "−9.2 points"), (-0.0001, "±0.0 points")])
def test_a_change_has_its_sign_and_nothing_has_both(change: float, said: str) -> None:
    assert words.points(change) == said


def test_a_long_name_keeps_its_beginning_and_its_end() -> None:
    said = words.clean("research/" + "x" * 100 + "-2026-11-09")
    assert len(said) == words.NAME_LENGTH
    assert said.startswith("research/")
    assert said.endswith("-2026-11-09")
    assert "…" in said


def test_control_and_direction_characters_are_shown_as_one_that_does_nothing() -> None:
    assert words.clean("a\u202eb\x00c") == "a\ufffdb\ufffdc"
    assert words.clean("  a\r\n\t b\u2028c\u00a0d ") == "a b c d"
    assert words.clean("👩‍🚀") == "👩‍🚀", "what joins letters and pictures stays"


def test_every_state_that_is_a_ghost_has_a_remedy_and_every_reason_has_words() -> None:
    import csv

    with (PROJECT_ROOT / "dbt_project" / "seeds" / "states.csv").open() as file:
        states = list(csv.DictReader(file))
    for state in states:
        reasons = [reason for reason in (state["state_reasons"] or "").split("|") if reason]
        assert all(reason in words.REASONS for reason in reasons)
        if state["is_ghost"] == "true":
            assert all(words.remedy(state["state"], reason) for reason in reasons or [""])


def test_a_reason_that_is_not_known_yet_is_said_as_it_is_written() -> None:
    assert words.reason_words("cooling_down") == "cooling down"
    assert words.remedy("unheard_of", "") == ""
