"""Find the numbers that a digest's text prints and that the published tables do not hold.

What may be printed is asked of the marts in SQL of its own, and written by plain format strings.
"""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Any

import duckdb

#: what looks like a number and is none: instants, days, versions, names with digits in them
_NO_NUMBERS = re.compile(
    r"\d{4}-\d\d-\d\d|\b\d\d-\d\d\b|\b\d\d:\d\d\b|\bv\d{6}\b|[A-Za-z_]+[-/#.]?\d[\w-]*|\b\d+[A-Za-z]\w*|per 1,000|build-\d+|95 %"
)
_NUMBER = re.compile(r"[+−±]?\d[\d,]*(?:\.\d+)?%?")


def unexplained(text: str, database: Path, day: date, team: str | None = None) -> list[str]:
    """The numbers of the text that no published figure explains, in the order in which they stand there."""
    with duckdb.connect(str(database), read_only=True) as connection:
        explained = _Explained(connection, day, team).numbers
    printed = [number for line in text.splitlines() for number in _NUMBER.findall(_NO_NUMBERS.sub(" ", line))]
    return [number for number in printed if number not in explained]


class _Explained:
    def __init__(self, connection: duckdb.DuckDBPyConnection, day: date, team: str | None) -> None:
        self._connection = connection
        self._values = {"day": day, "team": team}
        self.numbers: set[str] = set()
        self._waterfall()
        self._ratios()
        self._lists()

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        used = {name: value for name, value in self._values.items() if f"${name}" in query}
        return self._connection.execute(query, used).fetchall()

    def _hours(self, value: float | None) -> None:
        if value is not None:
            self.numbers |= {f"{value:,.1f}", "0.05"}

    def _money(self, value: Any) -> None:
        if value is not None:
            self.numbers.add(f"{value:,.2f}")

    def _waterfall(self) -> None:
        """Every sum of hours, and of money by currency: by state, by workload, state and reason, of ghosts, of all."""
        mart = "mart_ghost_capacity_daily where usage_date = $day and ($team is null or team = $team)"
        for what in ("state", "is_ghost", "1", "cost is null"):
            for _, gpu_hours in self._rows(f"select {what}, sum(gpu_hours) from {mart} group by all"):
                self._hours(gpu_hours)
            for _, _, cost in self._rows(f"select {what}, currency, sum(cost) from {mart} group by all"):
                self._money(cost)
        if not self._rows(f"select 1 from {mart} and is_ghost limit 1"):
            self._hours(0.0)
        ledger = """fct_gpu_ledger_hourly left join dim_workloads using (workload_id)
            where usage_date = $day and ($team is null or team = $team)"""
        for what in ("fct_gpu_ledger_hourly.cluster, workload_id, state, state_reason", "cost_source"):
            for *_, gpu_hours in self._rows(f"select {what}, sum(gpu_hours) from {ledger} group by all"):
                self._hours(gpu_hours)
            for *_, cost in self._rows(f"select {what}, currency, sum(cost) from {ledger} group by all"):
                self._money(cost)

    def _ratios(self) -> None:
        """GPU Net, its bounds and coverage of each day and of the week before, as sums over sums; of a fleet from its mart."""
        fleet = """select usage_date, sum(capacity_gpu_hours - out_of_service_gpu_hours), sum(held_gpu_hours),
            sum(unobserved_gpu_hours), sum(productive_gpu_hours) from mart_gpu_net_daily group by all"""
        team = """select usage_date, sum(gpu_hours), sum(gpu_hours),
            sum(case when state = 'unobserved' then gpu_hours else 0 end),
            sum(case when state = 'productive' then gpu_hours else 0 end)
            from mart_ghost_capacity_daily where team = $team group by all"""
        rows = self._rows(team if self._values["team"] else fleet)
        day = self._values["day"]
        assert isinstance(day, date)
        week = [row for row in rows if 1 <= (day - row[0]).days <= 7]
        if len(week) == 7:
            rows.append((None, *(sum(row[column] for row in week) for column in range(1, 5))))
        ratios: dict[Any, float] = {}
        for usage_date, base, held, unobserved, productive in rows:
            self._hours(base)
            self._hours(productive)
            self.numbers |= {f"{productive / base:.1%}", f"{(productive + unobserved) / base:.1%}"}
            ratios[usage_date] = productive / base
            if held:
                self.numbers.add(f"{1 - unobserved / held:.1%}")
        for ratio in ratios.values():
            change = f"{(ratios.get(day, 0.0) - ratio) * 100:+.1f}"
            self.numbers |= {change.replace("-", "−"), change.replace("+0.0", "±0.0").replace("-0.0", "±0.0")}

    def _lists(self) -> None:
        moved = """select mart.cluster, workload_id, state, {what},
            sum(case when usage_date = $day then {value} else 0 end)
                - sum(case when usage_date = $day - 1 then {value} else 0 end)
            from mart_ghost_capacity_daily as mart
            where usage_date in ($day, $day - 1) and ($team is null or team = $team) group by all"""
        for what, value, form in (("1", "gpu_hours", ",.1f"), ("currency", "cost", ",.2f")):
            for *_, change in self._rows(moved.format(what=what, value=value)):
                said = f"{change or 0:+{form}}"
                self.numbers |= {said.replace("-", "−"), re.sub(r"^[+-](0\.0+)$", r"±\1", said)}
        prices: dict[Any, tuple[Any, ...]] = {}
        for usage_date, key, *found in self._rows(
            """select usage_date, (workload_id, model, currency), tokens_all, request_count, cost_per_million_tokens,
            cost_per_thousand_requests from mart_unit_economics_daily where usage_date between $day - 1 and $day
            order by usage_date"""
        ):
            tokens, requests, *now = found
            self.numbers |= {f"{tokens:,}", f"{requests:,}"}
            for price, before in zip(now, prices.get(key, (None, None)), strict=True):
                if price is not None:
                    self.numbers |= {f"{price:,.{decimals}f}" for decimals in range(2, 7)}
                if price is not None and before:
                    change = f"{(price - before) / before:+.1%}"
                    self.numbers |= {change.replace("-", "−"), re.sub(r"^[+-](0\.0%)$", r"±\1", change)}
            if usage_date != self._values["day"]:
                prices[key] = tuple(now)
        for *listed, times in self._rows(
            """select list_cost_per_million_tokens, list_cost_per_thousand_requests, cost_to_list_ratio
            from mart_unit_economics_daily where usage_date = $day and list_model is not null"""
        ):
            self.numbers |= {f"{price:,.{decimals}f}" for price in listed if price is not None for decimals in range(2, 7)}
            self.numbers |= {f"{times:,.2f}"} if times is not None else set()
        for ratio, rows, quarantined in self._rows(
            "select coverage_ratio, rows_landed, rows_quarantined from mart_data_coverage_daily where usage_date = $day"
        ):
            self.numbers |= {f"{rows:,}", f"{quarantined:,}"} | ({f"{ratio:.1%}"} if ratio is not None else set())
        self.numbers |= {str(number) for row in self._rows("select checks_passed from publication") for number in row}
        # "10 of 25": how much of a list is shown
        self.numbers |= {"10", "8", "12"}
        self.numbers |= {
            str(row[0] + extra)
            for row in self._rows(
                """select count(distinct (l.cluster, l.workload_id, state, state_reason)) from fct_gpu_ledger_hourly as l
                inner join dim_states using (state) left join dim_workloads using (workload_id)
                where usage_date = $day and dim_states.is_ghost and ($team is null or team = $team)"""
            )
            for extra in (0, 1)
        }
