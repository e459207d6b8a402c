"""`python -m warehouse what-if RATE_CARDS.csv`: what the published device-hours would cost at other rate cards.

The cards price by the rules of the build, from the very file in which the build's models find them
(`dbt_project/macros/rate_cards.sql`): the card in force at the start of the hour, the most specific first, with energy where it
was measured. The published database is read and nothing is written.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
import duckdb
from jinja2 import Environment, StrictUndefined
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from warehouse.build import DBT_PROJECT, build_window
from warehouse.command_line import INSTANT
from warehouse.database import connect
from warehouse.digest.words import clean
from warehouse.home import Home
from warehouse.init.land import Said, read_file
from warehouse.landing.landings import Window
from warehouse.landing.shape import TABLES
from warehouse.sql import compose, identifier, identifiers, joined, parameters, type_name

RULES = DBT_PROJECT / "macros" / "rate_cards.sql"

#: device-hours as the ledger has them, priced by the table `cards`; the parts of a device's hour carry its cost by time
_PRICED = """
create temp table ledger as
select
    ledger.hour_start_at, ledger.cluster, ledger.gpu_id, ledger.gpu_model, ledger.workload_id, ledger.gpu_microseconds,
    ledger.energy_kwh, ledger.currency, ledger.cost, dim_nodes.provider
from main.fct_gpu_ledger_hourly as ledger
left join main.dim_nodes on ledger.cluster = dim_nodes.cluster and ledger.node = dim_nodes.node
where ($since is null or ledger.hour_start_at >= $since) and ($until is null or ledger.hour_start_at < $until);

create temp table priced as
with
device_hours as (
    select
        hour_start_at, cluster, gpu_id, gpu_model, max(provider) as provider,
        sum(gpu_microseconds) as inventory_us, sum(energy_kwh) as energy_kwh
    from ledger group by hour_start_at, cluster, gpu_id, gpu_model
),
prices as (select * from ({{ rate_card_prices('cards') }}) where fixed_cost_per_hour is not null),
in_force as ({{ rate_cards_in_force('device_hours', 'prices') }})
select
    device_hours.hour_start_at, device_hours.cluster, device_hours.gpu_id, device_hours.inventory_us, in_force.currency,
    {{ rate_card_cost('cast(device_hours.inventory_us as double) / 3.6e9', 'device_hours.energy_kwh') }} as cost,
    in_force.cost_per_kwh is not null and device_hours.energy_kwh is null as is_energy_left_out
from device_hours
inner join in_force
    on device_hours.hour_start_at = in_force.hour_start_at and device_hours.cluster = in_force.cluster
    and device_hours.gpu_model = in_force.gpu_model and device_hours.provider is not distinct from in_force.provider;

create temp table compared as
select
    ledger.cluster, ledger.gpu_model,
    case when ledger.workload_id = 'unallocated' then 'unallocated' else coalesce(dim_workloads.team, 'unknown') end as team,
    ledger.gpu_microseconds / 3.6e9 as gpu_hours,
    case when ledger.cost is not null then ledger.currency end as now_currency, ledger.cost as now_cost,
    priced.currency as card_currency,
    cast(priced.cost as double) * ledger.gpu_microseconds / nullif(priced.inventory_us, 0) as card_cost,
    coalesce(priced.is_energy_left_out, false) as is_energy_left_out
from ledger
left join priced
    on ledger.hour_start_at = priced.hour_start_at and ledger.cluster = priced.cluster and ledger.gpu_id = priced.gpu_id
left join main.dim_workloads on ledger.workload_id = dim_workloads.workload_id;
"""

#: by the columns named: both sides in the currency of each, and the hours that the other side does not price
_GROUPED = """
select
    {by}, currency, sum(gpu_hours) as gpu_hours,
    sum(now_hours) as now_gpu_hours, sum(now_cost) as now_cost, sum(card_hours) as card_gpu_hours,
    cast(round(sum(card_cost), 6) as decimal(18, 6)) as card_cost, sum(energy_hours) as energy_hours
from (
    select
        {by}, coalesce(now_currency, card_currency, 'unknown') as currency, gpu_hours,
        case when now_currency is not null then gpu_hours else 0 end as now_hours, now_cost,
        case when card_currency = coalesce(now_currency, card_currency) then gpu_hours else 0 end as card_hours,
        case when card_currency = coalesce(now_currency, card_currency) then card_cost end as card_cost,
        case when is_energy_left_out and card_currency = coalesce(now_currency, card_currency) then gpu_hours else 0 end
            as energy_hours
    from compared
    union all
    select
        {by}, card_currency, 0, 0, null, gpu_hours, card_cost, case when is_energy_left_out then gpu_hours else 0 end
    from compared
    where now_currency is not null and card_currency <> now_currency
)
group by {by}, currency
order by {by}, currency
"""


class WhatIfError(Exception):
    """There is nothing to price, or nothing to price it by; the message says what to do."""


@dataclass(frozen=True)
class Line:
    """Time and money of one group and currency, as published and at the given cards.

    A side is None where it prices none of the time in this currency; the difference is None where one of them is, or where the
    two price different time.
    """

    group: tuple[str, ...]
    currency: str
    gpu_hours: float
    now_gpu_hours: float
    now_cost: Decimal | None
    what_if_gpu_hours: float
    what_if_cost: Decimal | None
    energy_left_out_gpu_hours: float

    @property
    def difference(self) -> Decimal | None:
        if self.now_cost is None or self.what_if_cost is None or abs(self.now_gpu_hours - self.what_if_gpu_hours) > 1e-6:
            return None
        return self.what_if_cost - self.now_cost


@dataclass(frozen=True)
class WhatIf:
    """The answer: `by_model` per cluster and GPU model, all time included; `by_team` with what nobody held as a team."""

    by_model: Sequence[Line]
    by_team: Sequence[Line]
    notes: Sequence[str]


def what_if(home: Home, cards_file: Path, window: Window) -> WhatIf:
    """Price the published device-hours of the window by the cards of a file; raises WhatIfError."""
    said = read_cards(cards_file)
    if not home.published_database.exists():
        raise WhatIfError("nothing is published yet: land a source, then `python -m warehouse run`")
    with connect(home.published_database, read_only=True) as connection:
        _price(connection, said, window)
        by_model = _grouped(connection, "cluster", "gpu_model")
        if not by_model:
            raise WhatIfError("no GPU time is published in that window; see `python -m warehouse status`")
        return WhatIf(by_model, _grouped(connection, "team"), (*said.problems(), *said.notes))


def read_cards(path: Path) -> Said:
    """The cards of a file in the columns of the landing table `rate_cards`; raises WhatIfError where it has none."""
    said = read_file(path, "rate_cards")
    if said.error or not said.exists:
        raise WhatIfError(said.error or f"there is no file {path}")
    if not said.rows.height:
        raise WhatIfError("\n".join([f"{path} holds no rate card that can be read", *said.problems(), *said.notes]))
    return said


def _price(connection: duckdb.DuckDBPyConnection, said: Said, window: Window) -> None:
    shape = TABLES["rate_cards"]
    columns = joined(
        ", ",
        (compose("{name} {kind}", name=identifier(column.name), kind=type_name(column.sql_type)) for column in shape.columns),
    )
    connection.execute(compose("create temp table cards ({columns}, landed_at timestamp)", columns=columns))
    names = [column.name for column in shape.columns]
    insert = compose("insert into cards ({names}) values ({marks})", names=identifiers(names), marks=parameters(len(names)))
    rows = said.rows.select(names).rows()
    connection.executemany(insert, rows)
    values: dict[str, datetime | None] = {"since": window.start_at, "until": window.end_at}
    for statement in render(_PRICED).split(";"):
        if statement.strip():
            connection.execute(statement, values if "$since" in statement else None)


def render(sql: str) -> str:
    """SQL with the build's pricing rules put in."""
    return Environment(undefined=StrictUndefined, autoescape=False).from_string(RULES.read_text() + sql).render()


def _grouped(connection: duckdb.DuckDBPyConnection, *by: str) -> list[Line]:
    rows = connection.execute(compose(_GROUPED, by=identifiers(by))).fetchall()
    return [Line(tuple(row[: len(by)]), *row[len(by) :]) for row in rows]


@click.command("what-if")
@click.argument("rate_cards", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--since", type=INSTANT, help="From this instant or date on (UTC).")
@click.option("--until", type=INSTANT, help="Up to this instant or date, exclusive (UTC).")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def what_if_command(rate_cards: Path, since: datetime | None, until: datetime | None, as_json: bool) -> None:
    """Price the published GPU time by the rate cards of a CSV file, beside what it costs now. Writes nothing.

    The file has the columns of config/rate_cards.csv. Bills, too, are replaced by the cards: the question is what all of the
    time would cost.
    """
    try:
        answer = what_if(Home.from_environment(), rate_cards, build_window(since, until))
    except WhatIfError as error:
        click.echo(f"what-if: {error}", err=True)
        sys.exit(1)
    if as_json:
        click.echo(json.dumps(_record(answer), indent=2, ensure_ascii=False))
        return
    for note in answer.notes:
        click.echo(clean(note, 600), err=True)
    console = Console(width=max(100, Console().width))
    _print(console, ("cluster", "GPU model"), answer.by_model)
    _print(console, ("team",), answer.by_team)
    unpriced = sum(line.gpu_hours - line.what_if_gpu_hours for line in answer.by_model if line.gpu_hours)
    if unpriced > 1e-6:
        click.echo(
            f"{unpriced:,.1f} GPU-hours have no card in the same currency; "
            + "a difference is shown only where both sides price the same time."
        )
    if left_out := sum(line.energy_left_out_gpu_hours for line in answer.by_model):
        click.echo(f"{left_out:,.1f} GPU-hours have no measured energy: their cards' energy term is left out.")


def _record(answer: WhatIf) -> dict[str, Any]:
    def line(names: Sequence[str], row: Line) -> dict[str, Any]:
        record = asdict(row)
        record.pop("group")
        money = {name: None if record[name] is None else float(record[name]) for name in ("now_cost", "what_if_cost")}
        difference = None if row.difference is None else float(row.difference)
        return dict(zip(names, row.group, strict=True)) | record | money | {"difference": difference}

    return {
        "by_model": [line(("cluster", "gpu_model"), row) for row in answer.by_model],
        "by_team": [line(("team",), row) for row in answer.by_team],
        "notes": list(answer.notes),
    }


def _print(console: Console, names: Sequence[str], lines: Sequence[Line]) -> None:
    table = Table(*names, "currency", box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("GPU-hours", "now", "what if", "difference"):
        table.add_column(heading, justify="right")
    for line in lines:
        cells = (_money(line.now_cost), _money(line.what_if_cost), _money(line.difference, "+"))
        hours = line.gpu_hours or line.what_if_gpu_hours
        table.add_row(*(escape(clean(name)) for name in line.group), escape(clean(line.currency)), f"{hours:,.1f}", *cells)
    console.print(table)


def _money(cost: Decimal | None, sign: str = "") -> str:
    return "–" if cost is None else f"{cost:{sign},.2f}"
