"""How much of the time each source covered, and how fresh it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.history import LEAST_ROWS, ROWS_HIGH, ROWS_LOW, volume
from expectations.rules import WARNING, Table, at_least_zero, finite, has_columns, key, no_rows, ratios

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation

#: a source of telemetry that has landed nothing for this long is silent; bills come daily and a day late
STALE_HOURS, STALE_BILL_HOURS = 26, 72
COVERAGE_FLOOR_RATIO = 0.95


def expectations(table: Table) -> list[Expectation]:
    # bills belong to no cluster
    stale = f"""
        select cluster, source, max(last_landed_at) as last_landed_at from {{batch}} group by cluster, source
        having max(last_landed_at) < (select max(started_at) from control.builds)
            - to_hours(case when cluster = 'unallocated' then {STALE_BILL_HOURS} else {STALE_HOURS} end)"""
    thin = f"""
        select days.cluster, days.source, sum(days.covered_hours) as covered_hours, sum(days.expected_hours) as expected_hours,
            min(days.usage_date) as since_date
        from {{batch}} as days
        inner join (
            select own.cluster, max(own.usage_date) as last_date from {{batch}} as own
            where own.rows_landed > 0 group by own.cluster
        ) as newest on days.cluster = newest.cluster and days.usage_date >= newest.last_date - 1
        group by days.cluster, days.source having sum(days.covered_hours) < {COVERAGE_FLOOR_RATIO} * sum(days.expected_hours)"""
    return [
        has_columns(
            *("usage_date", "cluster", "source", "expected_hours", "covered_hours", "coverage_ratio", "rows_landed"),
            *("rows_quarantined", "rows_late", "last_landed_at"),
        ),
        *key("usage_date", "cluster", "source"),
        *finite(table),
        at_least_zero("expected_hours", "covered_hours", "rows_landed", "rows_quarantined", "rows_late"),
        ratios("coverage_ratio"),
        no_rows(
            "sources_are_fresh",
            stale,
            "A source landed nothing for a day (bills: three): did its collector stop? Try `python -m collectors check` there.",
            WARNING,
        ),
        no_rows(
            "held_time_is_covered",
            thin,
            "Less than 95 % of the held time of a cluster's last two days is covered: GPU Net is given as an interval there.",
            WARNING,
        ),
        volume(
            *("rows_as_in_last_weeks", ("cluster", "source"), "rows_landed"),
            "A source landed less than a third, or more than three times, the rows of the same weekday before: hosts stopped "
            "reporting, an interval was changed, or a landing is missing. `python -m warehouse status` says what came when.",
            low=ROWS_LOW,
            high=ROWS_HIGH,
            least=LEAST_ROWS,
            is_nothing_told=False,
        ),
    ]
