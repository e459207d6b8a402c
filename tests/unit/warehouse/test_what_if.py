"""What the published GPU time would cost at other rate cards."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from warehouse.home import Home
from warehouse.landing.landings import Window
from warehouse.what_if import WhatIf, WhatIfError, what_if, what_if_command

EVER = Window(None, None)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Two published hours of a card at 2 $: half held by `chat` of team `apps`, 0.5 kWh; and a card without a price."""
    monkeypatch.setenv("GPU_NET_HOME", str(tmp_path / "home"))
    home = Home.from_environment()
    home.published_database.parent.mkdir(parents=True)
    with duckdb.connect(str(home.published_database)) as connection:
        connection.execute(
            """
            create table fct_gpu_ledger_hourly (hour_start_at timestamp, cluster varchar, node varchar, gpu_id varchar,
                gpu_model varchar, workload_id varchar, gpu_microseconds bigint, energy_kwh double, currency varchar,
                cost decimal(18, 6));
            create table dim_nodes (cluster varchar, node varchar, provider varchar);
            create table dim_workloads (workload_id varchar, team varchar);
            insert into dim_nodes values ('a', 'n', 'Own'), ('a', 'm', null);
            insert into dim_workloads values ('a/-/chat', 'apps');
            insert into fct_gpu_ledger_hourly
            select timestamp '2026-11-02' + to_hours(hour), 'a', 'n', 'g1', 'H100', workload, 1800000000, 0.25, 'USD', 1
            from (values (0), (1)) as hours(hour), (values ('a/-/chat'), ('unallocated')) as workloads(workload);
            insert into fct_gpu_ledger_hourly
            values ('2026-11-02', 'a', 'm', 'g2', 'H200', 'unallocated', 3600000000, null, 'unknown', null);
            """
        )
    return home


def asked(home: Home, tmp_path: Path, *lines: str, window: Window = EVER) -> WhatIf:
    header = "gpu_model,provider,cluster,currency,cost_per_gpu_hour,purchase_price,depreciation_hours,hosting_cost_per_hour,"
    path = tmp_path / "cards.csv"
    path.write_text("\n".join([header + "energy_price_per_kwh,pue,valid_from,valid_to", *lines]) + "\n")
    return what_if(home, path, window)


def test_own_hardware_is_priced_by_purchase_place_and_energy(place: Home, tmp_path: Path) -> None:
    """Per hour 26,280 / 26,280 + 0.10 + 0.5 kWh × 0.20 × 1.5 = 1.25; two hours 2.50 in place of 4.00, half of it the team's."""
    answer = asked(place, tmp_path, "h100,,,USD,,26280,26280,0.1,0.2,1.5,2026-01-01,")
    first, second = answer.by_model
    assert (first.group, first.now_cost, first.what_if_cost) == (("a", "H100"), Decimal(4), Decimal("2.5"))
    assert first.difference == Decimal("-1.5")
    assert (second.group, second.currency, second.what_if_cost, second.difference) == (("a", "H200"), "unknown", None, None)
    assert {line.group[0]: line.difference for line in answer.by_team if line.currency == "USD"} == {
        "apps": Decimal("-0.75"),
        "unallocated": Decimal("-0.75"),
    }


def test_the_most_specific_card_in_force_at_the_start_of_the_hour_prices_it(place: Home, tmp_path: Path) -> None:
    cards = (
        "H100,,,USD,9,,,,,,2026-01-01,",
        "H100,own,,USD,7,,,,,,2026-01-01,",
        "H100,,a,USD,5,,,,,,2026-01-01,2026-11-02T01:00:00Z",
    )
    assert asked(place, tmp_path, *cards).by_model[0].what_if_cost == Decimal(12)


def test_another_currency_is_a_line_of_its_own_and_never_subtracted(place: Home, tmp_path: Path) -> None:
    answer = asked(place, tmp_path, "H100,,,EUR,3,,,,,,2026-01-01,", "H200,,,EUR,1,,,,,,2026-01-01,")
    lines = {(line.group[1], line.currency): (line.now_cost, line.what_if_cost, line.difference) for line in answer.by_model}
    assert lines == {
        ("H100", "USD"): (Decimal(4), None, None),
        ("H100", "EUR"): (None, Decimal(6), None),
        ("H200", "EUR"): (None, Decimal(1), None),
    }


def test_energy_that_was_not_measured_is_left_out_and_flagged(place: Home, tmp_path: Path) -> None:
    answer = asked(place, tmp_path, "H200,,,USD,,100,100,,0.2,1.5,2026-01-01,")
    line = next(line for line in answer.by_model if line.group == ("a", "H200"))
    assert (line.what_if_cost, line.energy_left_out_gpu_hours) == (Decimal(1), 1.0)


def test_doubling_every_price_doubles_every_cost_and_changes_no_hour(place: Home, tmp_path: Path) -> None:
    once = asked(place, tmp_path, "H100,,,USD,,26280,26280,0.1,0.2,1.5,2026-01-01,").by_model[0]
    twice = asked(place, tmp_path, "H100,,,USD,,52560,26280,0.2,0.4,1.5,2026-01-01,").by_model[0]
    assert once.what_if_cost is not None
    assert twice.what_if_cost == 2 * once.what_if_cost
    assert twice.gpu_hours == once.gpu_hours


def test_a_file_without_a_usable_card_is_an_error_that_says_why(place: Home, tmp_path: Path) -> None:
    with pytest.raises(WhatIfError, match="give cost_per_gpu_hour, or purchase_price"):
        asked(place, tmp_path, "H100,,,USD,,5,,,,,2026-01-01,")
    with pytest.raises(WhatIfError, match="there is no file"):
        what_if(place, tmp_path / "none.csv", EVER)


def test_the_command_prints_json_and_writes_nothing(place: Home, tmp_path: Path) -> None:
    before = sorted(path.stat().st_mtime_ns for path in place.root.rglob("*"))
    cards = tmp_path / "cards.csv"
    cards.write_text("gpu_model,currency,cost_per_gpu_hour,valid_from\nH100,USD,1,2026-01-01\n")
    done = CliRunner().invoke(what_if_command, [str(cards), "--since", "2026-11-02T01:00:00Z", "--json"])
    assert done.exit_code == 0, done.output
    (line,) = json.loads(done.output)["by_model"]
    assert (line["now_cost"], line["what_if_cost"], line["difference"]) == (2.0, 1.0, -1.0)
    text = CliRunner().invoke(what_if_command, [str(cards)]).output
    assert "-2.00" in text
    assert sorted(path.stat().st_mtime_ns for path in place.root.rglob("*")) == before
