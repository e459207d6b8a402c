"""How finely a page of at most 3 MB can show a fleet: each part has a number of cells that it may fill.

Measured in `tests/unit/warehouse/report/test_sizes.py` on a made-up fleet of 1,000 GPUs and a year; the charting library takes
1.1 MB of the 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, timedelta

#: workloads are shown by day for at least this long, and before it by week or month where the fleet is large
DAYS_BY_DAY = 35
PERIODS = ("day", "week", "month")
#: cells of workload × state × reason × time × currency: about 9 bytes each in the page
MOST_HOLDER_CELLS = 75_000
#: … and this many where each has its exchange as well
MOST_HOLDER_CELLS_REPORTING = 50_000
#: rows of members and months that each choice of the chargeback may have; the smaller members are one
MOST_CHARGEBACK_ROWS = 4_000
MOST_CHARGEBACK_ROWS_REPORTING = 2_000
#: cells of the map; the browser draws each of them
MOST_MAP_CELLS = 20_000
MAP_HOURS, MAP_DAYS = 7 * 24, 92
#: rows of unit costs, and of coverage; older days go first
MOST_ECONOMICS_ROWS = 20_000
MOST_COVERAGE_ROWS = 15_000


def cut_into_buckets(first: date, last: date, period: str) -> list[tuple[date, date]]:
    """Stretches of days, both ends included, that cover `first` to `last`.

    `period` is how days are kept together that are longer ago than DAYS_BY_DAY: `day`, `week` (from Monday) or `month`.
    """
    days_from = first if period == "day" else max(first, last - timedelta(days=DAYS_BY_DAY - 1))
    buckets = []
    day = first
    while day <= last:
        if day >= days_from:
            end = day
        elif period == "week":
            end = day + timedelta(days=6 - day.weekday())
        else:
            end = (day.replace(day=1) + timedelta(days=32)).replace(day=1) - timedelta(days=1)
        end = end if day >= days_from else min(end, days_from - timedelta(days=1))
        buckets.append((day, end))
        day = end + timedelta(days=1)
    return buckets


def choose_largest(holders: Iterable[tuple[str, int, float]], most: int) -> set[str]:
    """The holders to name: the largest by hours, as long as they have `most` cells among them. (Holder, cells, hours) each."""
    chosen: set[str] = set()
    used = 0
    for holder, cells, _ in sorted(holders, key=lambda one: (-one[2], one[0])):
        used += cells
        if used > most:
            break
        chosen.add(holder)
    return chosen


def first_that_fits(rows_by_day: Sequence[tuple[date, int]], most: int) -> date | None:
    """The earliest day from which all rows to the end are at most `most`; None where there are none. Newest day always fits."""
    kept = None
    used = 0
    for day, rows in sorted(rows_by_day, reverse=True):
        used += rows
        if kept is not None and used > most:
            break
        kept = day
    return kept
