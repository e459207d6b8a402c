"""The first screen: where the capacity went, what it cost, what came out of it. Reads the published database only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path

import duckdb
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from warehouse.database import connect
from warehouse.publication.publications import REPORT

#: money without a device belongs to no cluster (semantics 6); its row stands under this name in the marts
NO_CLUSTER = "unallocated"
UNPRICED = "unknown"
COMMITMENT = "commitment_unused"
ALL = "all"
#: below this coverage a ratio would be a guess, and the interval is shown (semantics 6)
COVERAGE_FLOOR = 0.95
#: characters of the waterfall's labels, and of a cluster's GPU-hours and money
LABEL_WIDTH, PAIR_WIDTH = 28, 24
LARGEST = 5
#: a table that is not printed to a terminal is made as wide as it needs, up to this
PLAIN_WIDTH = 120
#: GPU-hours below a microsecond and a half
NO_TIME = 5e-10

#: the waterfall's steps that are not time anyone held
BEFORE_HELD = ("out_of_service", "unallocated", "borrowed")


@dataclass
class Amount:
    """GPU-hours and money by currency. `unpriced_gpu_hours` have no price; what they cost is not known."""

    gpu_hours: float = 0.0
    unpriced_gpu_hours: float = 0.0
    costs: dict[str, Decimal] = field(default_factory=dict)

    def add(self, gpu_hours: float, currency: str, cost: Decimal | None) -> None:
        self.gpu_hours += gpu_hours
        if cost is None or currency == UNPRICED:
            self.unpriced_gpu_hours += gpu_hours
        else:
            self.costs[currency] = self.costs.get(currency, Decimal(0)) + cost

    def plus(self, other: Amount) -> Amount:
        total = Amount(self.gpu_hours + other.gpu_hours, self.unpriced_gpu_hours + other.unpriced_gpu_hours, dict(self.costs))
        for currency, cost in other.costs.items():
            total.costs[currency] = total.costs.get(currency, Decimal(0)) + cost
        return total

    def money(self, currency: str | None = None) -> str:
        """Amounts in two currencies stand side by side, they are never added; `+ ?` where a part has no price.

        `currency` is the one that the heading names already.
        """
        amounts = sorted(self.costs.items())
        known = " + ".join(f"{cost:,.2f}" if name == currency else f"{cost:,.2f} {name}" for name, cost in amounts)
        if self.unpriced_gpu_hours > NO_TIME:
            return f"{known} + ?" if known else "no price"
        return known or "–"


@dataclass(frozen=True)
class State:
    name: str
    label: str
    is_ghost: bool


@dataclass(frozen=True)
class UnitCost:
    """Allocation cost per million prompt and output tokens; None with the reason where it cannot be said."""

    cluster: str
    workload: str
    model: str
    currency: str
    tokens: int
    held_gpu_hours: float
    cost_per_million: float | None
    null_reason: str | None


@dataclass(frozen=True)
class Ghost:
    cluster: str
    workload: str
    state: str
    reason: str
    amount: Amount


@dataclass(frozen=True)
class FirstScreen:
    """`amounts` by (cluster, state); the states in the waterfall's order."""

    publication_id: str
    data_through_at: str
    first_date: date
    last_date: date
    clusters: Sequence[str]
    states: Sequence[State]
    amounts: dict[tuple[str, str], Amount]
    unit_costs: Sequence[UnitCost]
    ghosts: Sequence[Ghost]

    def amount(self, clusters: Sequence[str], states: Sequence[str]) -> Amount:
        total = Amount()
        for cluster in clusters:
            for state in states:
                total = total.plus(self.amounts.get((cluster, state), Amount()))
        return total

    def gpu_net(self, clusters: Sequence[str]) -> str:
        """Productive over capacity in service; the interval where less than 95 % of the held time was observed."""

        def hours(*names: str) -> float:
            return self.amount(clusters, names).gpu_hours

        everything = [state.name for state in self.states]
        in_service = hours(*everything) - hours("out_of_service")
        held = hours(*everything) - hours(*BEFORE_HELD)
        if in_service <= 0:
            return "–"
        low = hours("productive") / in_service
        high = (hours("productive") + hours("unobserved")) / in_service
        is_covered = held <= 0 or round(1 - hours("unobserved") / held, 9) >= COVERAGE_FLOOR
        return f"{low:.1%}" if is_covered else f"{low:.1%} to {high:.1%}"


def read(database: Path, days: int | None = 7) -> FirstScreen | None:
    """The last `days` UTC days that have data (None: all); None where nothing is in the database yet."""
    with connect(database, read_only=True) as connection:
        row = connection.execute("select min(usage_date), max(usage_date) from mart_gpu_net_daily").fetchone()
        if row is None or row[1] is None:
            return None
        first, last = row
        if days is not None:
            first = max(first, date.fromordinal(last.toordinal() - days + 1))
        publication = connection.execute("select publication_id, data_through_at from publication").fetchone()
        assert publication is not None
        states = [
            State(*found)
            for found in connection.execute(
                "select state, label, is_ghost from dim_states group by all order by min(state_order)"
            ).fetchall()
        ]
        amounts = _amounts(connection, first, last)
        clusters = sorted({cluster for cluster, _ in amounts if cluster != NO_CLUSTER})
        return FirstScreen(
            str(publication[0]),
            f"{publication[1]:%Y-%m-%d %H:%M} UTC" if publication[1] else "unknown",
            first,
            last,
            clusters,
            states,
            amounts,
            _unit_costs(connection, first, last),
            _ghosts(connection, first, last),
        )


def _amounts(connection: duckdb.DuckDBPyConnection, first: date, last: date) -> dict[tuple[str, str], Amount]:
    rows = connection.execute(
        """select cluster, state, currency, cost is null as is_unpriced, sum(gpu_hours), sum(cost)
        from mart_ghost_capacity_daily where usage_date between ? and ? group by all""",
        [first, last],
    ).fetchall()
    amounts: dict[tuple[str, str], Amount] = defaultdict(Amount)
    for cluster, state, currency, _, gpu_hours, cost in rows:
        amounts[cluster, state].add(gpu_hours, currency, cost)
    return dict(amounts)


def _unit_costs(connection: duckdb.DuckDBPyConnection, first: date, last: date) -> list[UnitCost]:
    """Σ cost / Σ tokens over the days that have a unit cost; days without one count in the tokens served, not in it."""
    rows = connection.execute(
        """select
            dim_workloads.cluster, dim_workloads.workload, economics.model, economics.currency,
            cast(sum(tokens) as bigint) as tokens,
            sum(held_gpu_hours) as held_gpu_hours,
            sum(cost_per_million_tokens * tokens) / nullif(sum(case when cost_per_million_tokens is not null then tokens end), 0),
            min(null_reason)
        from (
            select *, coalesce(prompt_tokens, 0) + coalesce(output_tokens, 0) as tokens from mart_unit_economics_daily
        ) as economics
        inner join dim_workloads using (workload_id)
        where usage_date between ? and ?
        group by all order by held_gpu_hours desc nulls last, dim_workloads.workload""",
        [first, last],
    ).fetchall()
    return [UnitCost(*row) for row in rows]


def _ghosts(connection: duckdb.DuckDBPyConnection, first: date, last: date) -> list[Ghost]:
    """The ghosts with the most GPU-hours; not by money, which two currencies would not allow to compare."""
    rows = connection.execute(
        """with ghosts as (
            select cluster, workload_id, state, state_reason, currency, cost is null as is_unpriced,
                sum(gpu_hours) as gpu_hours, sum(cost) as cost
            from fct_gpu_ledger_hourly
            where is_ghost and cast(hour_start_at as date) between ? and ? group by all
        )
        select ghosts.cluster, ghosts.workload_id, coalesce(dim_workloads.workload, ghosts.workload_id), dim_states.label,
            state_reason, currency, gpu_hours, cost
        from ghosts
        left join dim_workloads using (workload_id)
        left join (select distinct state, label from dim_states) as dim_states using (state)
        order by sum(gpu_hours) over (partition by ghosts.cluster, workload_id, ghosts.state, state_reason) desc nulls last,
            ghosts.cluster, ghosts.workload_id, ghosts.state, state_reason, currency""",
        [first, last],
    ).fetchall()
    # two workloads of one name in different namespaces are two
    amounts: dict[tuple[str, str, str, str, str], Amount] = {}
    for cluster, workload_id, workload, state, reason, currency, gpu_hours, cost in rows:
        amounts.setdefault((workload_id, cluster, workload, state, reason), Amount()).add(gpu_hours, currency, cost)
    return [Ghost(*key[1:], amount) for key, amount in list(amounts.items())[:LARGEST]]


def render(screen: FirstScreen, width: int = PLAIN_WIDTH, most_clusters: int | None = None) -> RenderableType:
    """The tables as they are printed, the waterfall in as many as `width` characters ask for.

    Of more than `most_clusters` only the largest have columns of their own; all of them are in the total.
    """
    everything = [state.name for state in screen.states if state.name != COMMITMENT]
    largest = sorted(screen.clusters, key=lambda cluster: -screen.amount([cluster], everything).gpu_hours)[:most_clusters]
    columns: list[tuple[tuple[str, ...], str]] = [((cluster,), cluster) for cluster in screen.clusters if cluster in largest]
    if len(screen.clusters) > 1:
        columns.append(((*screen.clusters, NO_CLUSTER), ALL))
    at_once = max(1, (width - LABEL_WIDTH) // PAIR_WIDTH)
    parts: list[RenderableType] = [_waterfall(screen, columns[i : i + at_once]) for i in range(0, len(columns), at_once)]
    if screen.unit_costs:
        parts.append(_unit_cost_table(screen))
    if screen.ghosts:
        parts.append(_ghost_table(screen))
    return Group(*parts)


def _table(title: str) -> Table:
    return Table(title=Text(title, style="bold"), title_justify="left", box=SIMPLE_HEAD, pad_edge=False, show_edge=True)


def _waterfall(screen: FirstScreen, columns: Sequence[tuple[tuple[str, ...], str]]) -> Table:
    """GPU-hours and money for each of `columns` (clusters, heading); for all clusters also each step's share."""
    days = f"{screen.first_date}" if screen.first_date == screen.last_date else f"{screen.first_date} to {screen.last_date}"
    table = _table(f"Where the GPU-hours went, {days} (UTC)")
    table.add_column("", no_wrap=True)
    currencies = [_only_currency(screen, clusters) for clusters, _ in columns]
    for (_, name), currency in zip(columns, currencies, strict=True):
        table.add_column(f"{name}\nGPU-hours", justify="right", no_wrap=True)
        table.add_column(f"\n{currency or 'money'}", justify="right")
    has_total = columns[-1][1] == ALL
    if has_total:
        table.add_column("\nshare", justify="right", no_wrap=True)
    everything = [state.name for state in screen.states if state.name != COMMITMENT]
    capacity = screen.amount(screen.clusters, everything).gpu_hours

    def add(label: str, states: Sequence[str], style: str | None = None) -> None:
        amounts = [screen.amount(clusters, states) for clusters, _ in columns]
        cells = [
            cell
            for amount, currency in zip(amounts, currencies, strict=True)
            for cell in (_hours(amount.gpu_hours), amount.money(currency))
        ]
        if has_total:
            cells.append(f"{amounts[-1].gpu_hours / capacity:.1%}" if capacity and amounts[-1].gpu_hours > NO_TIME else "")
        table.add_row(label, *cells, style=style)

    # as in the digest the steps add up to the first, so that it holds what was paid for commitments that nothing used
    add("Capacity", [*everything, COMMITMENT], "bold")
    for state in screen.states:
        if state.name in BEFORE_HELD:
            add(f"  {state.label}", [state.name])
    held = [name for name in everything if name not in BEFORE_HELD]
    add("  Held", held, "bold")
    for state in screen.states:
        is_there = screen.amount(screen.clusters, [state.name]).gpu_hours > NO_TIME
        if state.name in held and (is_there or not state.is_ghost):
            add(f"    {state.label}", [state.name], "green" if state.name == "productive" else None)
    if screen.amount([*screen.clusters, NO_CLUSTER], [COMMITMENT]).costs:
        add("  Unused commitment", [COMMITMENT])
    table.add_section()
    nets = [cell for clusters, _ in columns for cell in (screen.gpu_net(clusters), "")]
    table.add_row("GPU Net", *nets, style="bold")
    return table


def _only_currency(screen: FirstScreen, clusters: Sequence[str]) -> str | None:
    """The currency of all money of these clusters; None where there are several, or none."""
    found = screen.amount(clusters, [state.name for state in screen.states]).costs
    return next(iter(found)) if len(found) == 1 else None


def _unit_cost_table(screen: FirstScreen) -> Table:
    table = _table("Cost per million tokens (prompt and output; cost of the time held)")
    for name in ("cluster", "workload", "model"):
        table.add_column(name)
    for name in ("million tokens", "GPU-hours held", "cost per million"):
        table.add_column(name, justify="right")
    for cost in screen.unit_costs:
        reason = (cost.null_reason or "").replace("_", " ")
        said = f"{cost.cost_per_million:,.4f} {cost.currency}" if cost.cost_per_million is not None else f"– ({reason})"
        tokens = f"{cost.tokens / 1e6:,.2f}"
        table.add_row(cost.cluster, cost.workload, cost.model, tokens, _hours(cost.held_gpu_hours), said)
    return table


def _ghost_table(screen: FirstScreen) -> Table:
    table = _table(f"The {len(screen.ghosts)} largest ghosts")
    for name in ("cluster", "workload", "state", "reason"):
        table.add_column(name)
    for name in ("GPU-hours", "money"):
        table.add_column(name, justify="right")
    for ghost in screen.ghosts:
        workload = "(nobody)" if ghost.workload == NO_CLUSTER else ghost.workload
        reason = ghost.reason.replace("_", " ") or "–"
        table.add_row(ghost.cluster, workload, ghost.state, reason, _hours(ghost.amount.gpu_hours), ghost.amount.money())
    return table


def _hours(gpu_hours: float) -> str:
    return f"{gpu_hours:,.2f}" if abs(gpu_hours) > NO_TIME else "–"


def show(database: Path, console: Console | None = None, days: int | None = 7, most_clusters: int | None = None) -> None:
    """Print the first screen of a published database, or that there is nothing in it yet; see `read` and `render`."""
    console = console or Console()
    screen = read(database, days) if database.exists() else None
    if screen is None:
        console.print("nothing is published yet: land a source, then `python -m warehouse run`")
        return
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    console.print(render(screen, console.width, most_clusters))
    console.print(f"published as {screen.publication_id}, data through {screen.data_through_at}")
    if (report := database.with_name(REPORT)).exists():
        console.print(str(report), soft_wrap=True, highlight=False)
    console.print(str(database), soft_wrap=True, highlight=False)
