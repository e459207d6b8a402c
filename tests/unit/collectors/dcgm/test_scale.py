from __future__ import annotations

from datetime import datetime

import pytest

from collectors.dcgm.parse import Reading, parse_scrape
from collectors.dcgm.scale import Scale, in_dcgms_scale, judge
from tests.unit.collectors.dcgm.scrapes import GRAPHICS, SM, UTIL, WHOLE, scrape

NOON = datetime(2026, 11, 1, 12)
DRAM = "DCGM_FI_PROF_DRAM_ACTIVE"


def readings(*cards: dict[str, float | str]) -> list[Reading]:
    text = "\n".join(scrape(values, WHOLE | {"UUID": f"GPU-{number}"}) for number, values in enumerate(cards))
    return parse_scrape(text.encode(), "a", at=NOON).readings


@pytest.mark.parametrize(
    ("cards", "known", "expected"),
    [
        # DCGM's own scale, with a single device's error among the values (A07)
        ([{GRAPHICS: 0.97, SM: 1.294, UTIL: 98}], None, 1.0),
        ([{GRAPHICS: 0.5}, {GRAPHICS: 71.0}], None, 1.0),
        # percentages, of a busy card and an idle one
        ([{GRAPHICS: 97.1, SM: 71.4, DRAM: 30.2, UTIL: 98}, {GRAPHICS: 0.4, SM: 0.1, UTIL: 0}], None, 0.01),
        # of idle cards alone only what was known tells the scale
        ([{GRAPHICS: 0.4, SM: 0.1, UTIL: 0}], None, 1.0),
        ([{GRAPHICS: 0.4, SM: 0.1, UTIL: 0}], Scale(profiling=0.01), 0.01),
        # what was known is given up when a busy card shows a ratio
        ([{GRAPHICS: 0.9, UTIL: 95}], Scale(profiling=0.01), 1.0),
        # blanks and what is above every percentage show nothing
        ([{GRAPHICS: 140737488355330.0, SM: 140737488355330.0, DRAM: 500}], None, 1.0),
        ([{GRAPHICS: "NaN", SM: "NaN"}], None, 1.0),
        ([], Scale(profiling=0.01), 0.01),
    ],
)
def test_profiling_fields_are_percentages_where_all_of_a_nodes_values_say_so(
    cards: list[dict[str, float | str]], known: Scale | None, expected: float
) -> None:
    assert judge(readings(*cards) if cards else [], known).profiling == expected


@pytest.mark.parametrize(
    ("cards", "known", "expected"),
    [
        ([{UTIL: 87}, {UTIL: 0}], None, 1.0),
        ([{UTIL: 0.87}, {UTIL: 0.12}, {UTIL: 0}], None, 100.0),
        ([{UTIL: 0.87}, {UTIL: 43}], None, 1.0),
        ([{UTIL: 1}, {UTIL: 0}], None, 1.0),
        ([{UTIL: 1}, {UTIL: 0}], Scale(utilization=100.0), 100.0),
        ([{UTIL: 9223372036854775794}], None, 1.0),
    ],
)
def test_utilisation_is_a_ratio_where_no_value_is_a_percentage(
    cards: list[dict[str, float | str]], known: Scale | None, expected: float
) -> None:
    assert judge(readings(*cards), known).utilization == expected


def test_a_scale_is_applied_to_its_fields_only() -> None:
    (reading,) = in_dcgms_scale(readings({GRAPHICS: 97.0, UTIL: 0.5, "DCGM_FI_DEV_GPU_TEMP": 60}), Scale(0.01, 100.0))
    assert reading.values == {GRAPHICS: pytest.approx(0.97), UTIL: 50.0, "DCGM_FI_DEV_GPU_TEMP": 60.0}
