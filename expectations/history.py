"""Rules that compare the newest whole day with the last weeks: how much there is, and of what kind.

They look at one day, so that a fault is told when it comes and not again for weeks. All are warnings: a fleet may well grow, move
or stop. Volume is compared with the same weekday, since weekends are not workdays. A day is whole when the data reach past its
end. A cluster that is new has no weeks to be compared with, and is left alone. Measured on a ledger of 2.0 million rows (1,000
GPUs, eight weeks) on 2 busy cores: the five rules 0.4 s of processor time, the whole gate 14 s, of which 5 s are imports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import WARNING, History, no_rows

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation

#: days looked back, of which each weekday has four
WEEKS_DAYS = 28
#: a median of one day is that day: two of the same weekday are the least
WEEKDAYS_NEEDED, DAYS_NEEDED = 2, 14
#: hours follow the machines there are; rows follow the work as well
HOURS_LOW, HOURS_HIGH = 0.5, 2.0
ROWS_LOW, ROWS_HIGH = 0.3, 3.0
#: a source that lands fewer rows than this a day (a price list, a node's state) has no volume to speak of
LEAST_ROWS = 100
#: share of a cluster's time by which a kind of it may leave the range of the last weeks, and at which a new kind is told
SHAPE_MARGIN, NEW_KIND_RATIO = 0.20, 0.05

#: the days of `{batch}` before the one that the data end in
_WHOLE = "usage_date < (select cast(max(data_through_at) as date) from control.builds)"
_NEWEST = f"(select max(usage_date) from {{batch}} where {_WHOLE})"

#: `days`: whole days before the newest whole one, as far as anyone looks back
_HISTORY = History(
    f"""select count(distinct usage_date) as days from {{batch}}
    where {_WHOLE} and usage_date < {_NEWEST} and usage_date >= {_NEWEST} - {WEEKS_DAYS}""",
    DAYS_NEEDED,
)


def volume(
    check_id: str,
    parts: tuple[str, ...],
    measure: str,
    failure: str,
    *,
    low: float,
    high: float,
    least: float,
    is_nothing_told: bool,
) -> Expectation:
    """The newest whole day's sum of `measure`, by `parts`, is `low` to `high` times the median of the same weekdays before.

    A part whose median is below `least`, or that has too few of that weekday, has no volume to compare with. One that has nothing
    on that day fails where `is_nothing_told`, and is otherwise left to the rule for freshness.
    """
    names = ", ".join(parts)
    query = f"""
        with days as (
            select {names}, usage_date, sum({measure}) as amount from {{batch}}
            where {_WHOLE} and usage_date >= {_NEWEST} - {WEEKS_DAYS} group by all
        ),
        same_weekdays as (
            select {names}, median(amount) as median_before, count(*) as day_count from days
            where usage_date < {_NEWEST} and date_diff('day', usage_date, {_NEWEST}) % 7 = 0 group by all
            having count(*) >= {WEEKDAYS_NEEDED} and median(amount) >= {least}
        ),
        newest as (select * from days where usage_date = {_NEWEST})
        select {_NEWEST} as usage_date, {names}, coalesce(newest.amount, 0) as {measure}, same_weekdays.median_before,
            round(coalesce(newest.amount, 0) / same_weekdays.median_before, 3) as ratio_to_median
        from same_weekdays {"left" if is_nothing_told else "inner"} join newest using ({names})
        where coalesce(newest.amount, 0) not between {low} * median_before and {high} * median_before"""
    return no_rows(check_id, query, failure, WARNING, history=_HISTORY)


def shape_in_range(check_id: str, column: str, failure: str) -> Expectation:
    """By cluster, each value of `column` has a share of the newest whole day's hours as in the last weeks, plus a margin."""
    query = f"""
        with {_shares(column)},
        ranges as (
            select cluster, kind, min(share) as least_before, max(share) as most_before
            from filled where usage_date < {_NEWEST} group by all having count(*) >= {DAYS_NEEDED}
        )
        select {_NEWEST} as usage_date, cluster, kind as {column}, round(filled.share, 4) as share,
            round(least_before, 4) as least_before, round(most_before, 4) as most_before
        from filled inner join ranges using (cluster, kind)
        where filled.usage_date = {_NEWEST}
            and (filled.share < least_before - {SHAPE_MARGIN} or filled.share > most_before + {SHAPE_MARGIN})"""
    return no_rows(check_id, query, failure, WARNING, history=_HISTORY)


def no_new_kinds(check_id: str, failure: str) -> Expectation:
    """No state and reason takes a share of a cluster's newest whole day that it never had in the weeks before."""
    query = f"""
        with {_shares("concat_ws(' ', state, nullif(state_reason, ''))")}
        select {_NEWEST} as usage_date, cluster, kind as state_and_reason,
            round(max(share) filter (where usage_date = {_NEWEST}), 4) as share
        from filled group by cluster, kind
        having max(share) filter (where usage_date = {_NEWEST}) >= {NEW_KIND_RATIO}
            and max(share) filter (where usage_date < {_NEWEST}) = 0
            and count(*) filter (where usage_date < {_NEWEST}) >= {DAYS_NEEDED}"""
    return no_rows(check_id, query, failure, WARNING, history=_HISTORY)


def _shares(kind: str) -> str:
    """CTEs up to `filled`: per whole day of the last weeks and cluster the share of hours of each kind, 0 where there is none."""
    return f"""
        hours as (
            select usage_date, cluster, {kind} as kind, sum(gpu_hours) as gpu_hours from {{batch}}
            where {_WHOLE} and usage_date >= {_NEWEST} - {WEEKS_DAYS} group by all
        ),
        totals as (select usage_date, cluster, sum(gpu_hours) as gpu_hours from hours group by all),
        kinds as (select distinct cluster, kind from hours),
        filled as (
            select totals.usage_date, cluster, kind, coalesce(hours.gpu_hours, 0) / nullif(totals.gpu_hours, 0) as share
            from totals inner join kinds using (cluster) left join hours using (usage_date, cluster, kind)
        )"""
