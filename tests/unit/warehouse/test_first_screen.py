"""The first screen of a small published database whose figures are worked by hand."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from io import StringIO
from pathlib import Path

import duckdb
import pytest
from rich.console import Console

from warehouse.first_screen import Amount, read, render, show

#: (day, cluster, workload, state, reason, currency, GPU-hours, cost)
WATERFALL = [
    ("2026-11-01", "a", "unallocated", "unallocated", "free", "USD", 100.0, "100"),
    ("2026-11-08", "a", "unallocated", "out_of_service", "down", "USD", 2.0, "4"),
    ("2026-11-08", "a", "unallocated", "unallocated", "free", "USD", 4.0, "8"),
    ("2026-11-08", "a", "w1", "unobserved", "gap", "USD", 1.0, "2"),
    ("2026-11-08", "a", "w1", "reserved_memory", "", "USD", 3.0, "6"),
    ("2026-11-09", "a", "w1", "productive", "", "USD", 10.0, "20"),
    ("2026-11-09", "b", "w2", "productive", "", "EUR", 5.0, "15"),
    ("2026-11-09", "b", "w2", "idle_compute", "", "unknown", 5.0, None),
    ("2026-11-09", "unallocated", "unallocated", "commitment_unused", "", "USD", 0.0, "7"),
]
STATES = [
    ("out_of_service", 1, False),
    ("unallocated", 2, True),
    ("borrowed", 3, False),
    ("unobserved", 5, False),
    ("reserved_memory", 9, True),
    ("idle_compute", 10, True),
    ("productive", 14, False),
    ("commitment_unused", 15, True),
]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "gpu_net.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            """create table publication as select 'v000007' as publication_id, timestamp '2026-11-10 00:00' as data_through_at;
            create table dim_states (state varchar, state_order int, is_ghost boolean, label varchar);
            create table dim_workloads (workload_id varchar, cluster varchar, workload varchar);
            insert into dim_workloads values ('w1', 'a', 'chat'), ('w2', 'b', 'train');
            create table mart_ghost_capacity_daily
                (usage_date date, cluster varchar, workload_id varchar, state varchar, state_reason varchar, currency varchar,
                gpu_hours double, cost decimal(18,6));
            create table mart_unit_economics_daily
                (usage_date date, workload_id varchar, model varchar, currency varchar, prompt_tokens bigint,
                output_tokens bigint, held_gpu_hours double, cost_per_million_tokens double, null_reason varchar);
            insert into mart_unit_economics_daily values
                ('2026-11-08', 'w1', 'm', 'USD', 900000, 100000, 1, 4.0, null),
                ('2026-11-09', 'w1', 'm', 'USD', 8000000, 1000000, 1, 4.0 / 9, null),
                ('2026-11-09', 'w2', 'n', 'EUR', 0, 0, 1, null, 'no_tokens')"""
        )
        for name, order, is_ghost in STATES:
            connection.execute(
                "insert into dim_states values (?, ?, ?, ?)", [name, order, is_ghost, name.replace("_", " ").capitalize()]
            )
        for row in WATERFALL:
            connection.execute("insert into mart_ghost_capacity_daily values (?, ?, ?, ?, ?, ?, ?, ?)", list(row))
        connection.execute(
            """create table mart_gpu_net_daily as select distinct usage_date from mart_ghost_capacity_daily;
            create table fct_gpu_ledger_hourly as
            select cast(usage_date as timestamp) as hour_start_at, mart_ghost_capacity_daily.*, is_ghost
            from mart_ghost_capacity_daily inner join dim_states using (state) where state <> 'commitment_unused'"""
        )
    return path


@pytest.fixture
def printed(database: Path) -> Callable[..., str]:
    def show_it(**options: int | None) -> str:
        text = StringIO()
        show(database, Console(file=text, width=200), **options)
        return text.getvalue()

    return show_it


def test_the_last_days_are_shown_and_older_ones_only_when_asked(database: Path) -> None:
    week = read(database)
    everything = read(database, days=None)
    assert week is not None
    assert everything is not None
    assert week.amount(["a"], ["unallocated"]).gpu_hours == 4.0
    assert everything.amount(["a"], ["unallocated"]).gpu_hours == 104.0


def test_gpu_net_is_an_interval_where_too_little_was_observed(database: Path) -> None:
    """a: 10 productive of 20 − 2; 1 of 14 held is unobserved, 7 %. b: 5 of 10, all observed."""
    screen = read(database)
    assert screen is not None
    assert screen.gpu_net(["a"]) == "55.6% to 61.1%"
    assert screen.gpu_net(["b"]) == "50.0%"
    assert screen.gpu_net(["c"]) == "–"


def test_two_currencies_stand_side_by_side_and_a_missing_price_is_said(database: Path) -> None:
    screen = read(database)
    assert screen is not None
    assert screen.amount(["a", "b"], ["productive", "idle_compute"]).money() == "15.00 EUR + 20.00 USD + ?"
    assert screen.amount(["b"], ["idle_compute"]).money() == "no price"
    assert Amount(1.0, 0.0, {"USD": Decimal("0")}).money("USD") == "0.00", "a price of 0 is a price"
    assert Amount().money() == "–"


def test_money_without_a_device_is_in_the_total_and_in_no_cluster(database: Path) -> None:
    screen = read(database)
    assert screen is not None
    assert screen.clusters == ["a", "b"]
    assert screen.amount(["a", "b"], ["commitment_unused"]).costs == {}
    assert screen.amount(["unallocated"], ["commitment_unused"]).costs == {"USD": Decimal("7")}


def test_a_unit_cost_of_days_is_their_cost_over_their_tokens(database: Path) -> None:
    """4 $ for 1 million and 4 $ for 9 million are 0.80 $ per million, not 2.22."""
    screen = read(database)
    assert screen is not None
    costs = {cost.workload: cost for cost in screen.unit_costs}
    assert costs["chat"].cost_per_million == pytest.approx(0.80)
    assert costs["chat"].tokens == 10_000_000
    assert costs["train"].cost_per_million is None
    assert costs["train"].null_reason == "no_tokens"


def test_the_largest_ghosts_come_first_with_who_and_why(printed: Callable[..., str]) -> None:
    ghosts = printed().split("largest ghosts")[1].splitlines()
    rows = [line.split() for line in ghosts if line.strip().startswith(("a ", "b "))]
    assert rows[0] == ["b", "train", "Idle", "compute", "–", "5.00", "no", "price"]
    assert rows[1] == ["a", "(nobody)", "Unallocated", "free", "4.00", "8.00", "USD"]
    assert rows[2] == ["a", "chat", "Reserved", "memory", "–", "3.00", "6.00", "USD"]


def test_the_steps_of_the_waterfall_stand_in_its_order_and_productive_is_last(printed: Callable[..., str]) -> None:
    text = printed()
    labels = ["Capacity", "Out of service", "Unallocated", "Borrowed", "Held", "Unobserved", "Reserved memory", "Productive"]
    places = [text.index(f"{label} ") for label in labels]
    assert places == sorted(places)
    capacity = next(line for line in text.splitlines() if line.strip().startswith("Capacity")).split()
    assert capacity[:3] == ["Capacity", "20.00", "40.00"]
    assert "published as v000007, data through 2026-11-10 00:00 UTC" in text


def test_capacity_begins_with_the_money_of_all_its_steps_unused_commitments_too(printed: Callable[..., str]) -> None:
    """a: 4 + 8 + 2 + 6 + 20; the 7.00 of no cluster are in the total of 47.00 alone, as in the digest."""
    lines = printed().splitlines()
    capacity = next(line for line in lines if line.strip().startswith("Capacity"))
    commitment = next(line for line in lines if line.strip().startswith("Unused commitment"))
    assert "40.00" in capacity
    assert "15.00 EUR + 47.00 USD + ?" in capacity
    assert "7.00" in commitment


def test_a_narrow_terminal_gets_the_clusters_one_below_the_other(database: Path) -> None:
    screen = read(database)
    assert screen is not None
    console = Console(file=StringIO(), width=60, record=True)
    console.print(render(screen, 60))
    assert console.export_text().count("Where the GPU-hours went") == 3
    assert "…" not in console.export_text().split("Cost per million")[0]


def test_nothing_published_is_said_with_what_to_do(tmp_path: Path) -> None:
    text = StringIO()
    show(tmp_path / "absent.duckdb", Console(file=text))
    assert "python -m warehouse run" in text.getvalue()


def test_a_model_without_output_tokens_has_its_line(database: Path) -> None:
    """An embedding model counts prompt tokens only; the sum with an absent count was null and the screen fell over it."""
    with duckdb.connect(str(database)) as connection:
        connection.execute(
            "insert into mart_unit_economics_daily values ('2026-11-09', 'w2', 'embed', 'EUR', 2000000, null, 1, 1.5, null)"
        )
    screen = read(database)
    assert screen is not None
    (line,) = [cost for cost in screen.unit_costs if cost.model == "embed"]
    assert (line.tokens, line.cost_per_million) == (2_000_000, 1.5)
