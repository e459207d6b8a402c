"""When each kind of rule fires, on a fleet worked by hand (`small_fleet`), and that it says the mail's numbers."""

from __future__ import annotations

from datetime import datetime, timedelta

import duckdb
import pytest

from tests.unit.expectations.fake_build import allow, make_build
from tests.unit.warehouse.alerts.watched_fleet import NOW, rule, watched
from tests.unit.warehouse.digest.small_fleet import DAY, LEDGER, WORKLOADS, hold
from warehouse.alerts.conditions import Evaluation, evaluate
from warehouse.database import locked
from warehouse.digest.command import read_alerts
from warehouse.digest.editions import Edition
from warehouse.digest.reading import read
from warehouse.digest.render import render
from warehouse.home import Home


@pytest.fixture
def own_home(home: object) -> Home:
    return watched(Home.from_environment().create())


def said(home: Home, *rules: str, now: datetime = NOW) -> list[tuple[str, str]]:
    """Subject and sentence of what fires."""
    rule(home, *rules)
    found = evaluate(home, now)
    assert (found.problems, found.undetermined) == ([], frozenset())
    return [(firing.subject, firing.says) for firing in found.firings]


def subjects(home: Home, *rules: str, now: datetime = NOW) -> list[str]:
    return [subject for subject, _ in said(home, *rules, now=now)]


def test_ghost_money_is_the_mails_and_fires_above_its_budget_only(own_home: Home) -> None:
    says = "Ghost capacity of the fleet cost 16.00 USD on 2026-11-09, above 15.99."
    assert said(own_home, "g,ghost_money,15.99,USD") == [("the fleet", says)]
    assert said(own_home, "g,ghost_money,16,USD") == []
    assert said(own_home, "g,ghost_money,1,EUR") == []
    assert "Ghost capacity took 4.5 GPU-hours and 16.00 USD." in render(read(own_home, Edition())).text.replace("\n", " ")


def test_ghost_money_of_a_month_by_team_cluster_and_workload(own_home: Home) -> None:
    """The day before, nobody held 4 USD of `a`, and `chat` kept memory for 2."""
    assert said(own_home, "g,ghost_money,3.99,USD,month,team,,apps") == [
        ("apps", "Ghost capacity of team apps cost 4.00 USD in 2026-11 through 2026-11-09, above 3.99.")
    ]
    assert subjects(own_home, "g,ghost_money,0.5,USD,,workload,a") == ["unallocated", "a/x/chat", "a/x/train"]
    assert subjects(own_home, "g,ghost_money,0.5,USD,,workload,,,train") == ["a/x/train"]
    assert subjects(own_home, "g,ghost_money,9.5,USD,month,cluster") == ["a"]


def test_gpu_net_below_a_floor(own_home: Home) -> None:
    assert said(own_home, "n,gpu_net_below,50.1%,,,cluster") == [
        ("a", "GPU Net of cluster a was 50.0% on 2026-11-09, below 50.1%.")
    ]
    assert said(own_home, "n,gpu_net_below,50%") == []


def test_where_too_little_is_known_gpu_net_is_low_only_if_its_whole_interval_is(own_home: Home) -> None:
    unobserved = (DAY, "a", "a/x/chat", "unobserved", "gap", "rate_card", "USD", 3.0, "6")
    watched(own_home, ledger=[*LEDGER, unobserved])
    # 4.5 of 12 hours are known to be productive, 7.5 may be
    assert said(own_home, "n,gpu_net_below,60%") == []
    assert "GPU Net of the fleet was 37.5% to 62.5% on" in said(own_home, "n,gpu_net_below,63%")[0][1]
    assert "66.7% of the GPU time that the fleet held was observed" in said(own_home, "c,coverage_below,95%")[0][1]
    assert subjects(own_home, "c,coverage_below,95%,,,team") == ["apps"]
    assert subjects(own_home, "c,coverage_below,66%") == []


def test_coverage_by_source_is_what_the_source_observed(own_home: Home) -> None:
    assert subjects(own_home, "c,coverage_below,0.95,,,source") == ["b dcgm", "a dcgm"]
    assert subjects(own_home, "c,coverage_below,0.95,,,source,a") == ["a dcgm"]
    assert subjects(own_home, "c,coverage_below,0.9,,,source,a") == []


def test_a_source_is_silent_from_its_last_landed_row_on_and_settings_are_no_source(own_home: Home) -> None:
    assert said(own_home, "s,source_silent,26") == [
        ("b dcgm", "dcgm has landed nothing for b since 2026-11-08 12:00 UTC, for 48 hours; 26 are the limit.")
    ]
    assert subjects(own_home, "s,source_silent,26", now=NOW + timedelta(hours=15)) == ["b dcgm", "a dcgm"]
    assert subjects(own_home, "s,source_silent,26,,,,a") == []


def test_while_a_newer_build_is_held_silence_ends_where_the_published_version_does(own_home: Home) -> None:
    """Published at 2026-11-10 00:40: what landed since, it cannot know."""
    late = NOW + timedelta(days=3)
    hold(own_home, late)
    assert subjects(own_home, "s,source_silent,26", now=late) == ["b dcgm"]


def test_a_held_build_fires_with_its_reason_until_a_verdict_lets_one_through(own_home: Home) -> None:
    assert said(own_home, "h,build_held") == []
    hold(own_home, datetime(2026, 11, 10, 9, 0))
    ((_, says),) = said(own_home, "h,build_held")
    assert says == ("The gate holds build build-8, checked 2026-11-10 09:00 UTC: fct_gpu_ledger_hourly: Two rows are one.")
    assert said(own_home, "h,build_held,4") == [], "it is held for three hours"
    assert len(said(own_home, "h,build_held,3")) == 1
    allow(own_home, "build-8")
    assert said(own_home, "h,build_held") == []


def test_a_build_that_did_not_end_fires_and_one_that_runs_cannot_be_told(own_home: Home) -> None:
    make_build(own_home)
    assert said(own_home, "f,build_failed") == []
    with duckdb.connect(str(own_home.build_database)) as connection:
        connection.execute("update control.build_window set build_id = 'build-002'")
    rule(own_home, "f,build_failed")
    with locked(own_home):
        assert evaluate(own_home, NOW).undetermined == {"f"}
    ((_, says),) = said(own_home, "f,build_failed")
    assert "after build-001 a build began that did not end" in says


def test_a_bill_does_not_close_where_its_closed_days_hold_money_that_nothing_explains(own_home: Home) -> None:
    ((_, says),) = said(own_home, "b,bill_does_not_close,1%")
    assert says.startswith("The bill of aws 1 for 2026-11 does not close: 4.00 of 100.00 USD are neither")
    assert said(own_home, "b,bill_does_not_close,4%") == []


def test_the_cost_of_tokens_is_the_marts(own_home: Home) -> None:
    ((subject, says),) = said(own_home, "t,token_cost,0.5,USD")
    assert subject == "a/x/chat llama"
    assert says == "A million tokens of workload chat in a for llama cost 0.5333 USD on 2026-11-09, above 0.5000."
    assert subjects(own_home, "t,token_cost,0.5,USD,,fleet") == ["the fleet"]
    assert said(own_home, "t,token_cost,0.54,USD") == []


def test_time_without_a_price_and_money_without_a_team(own_home: Home) -> None:
    assert said(own_home, "u,unpriced_share", "k,unknown_share,1%") == []
    unpriced = (DAY, "a", "a/x/chat", "productive", "", "unpriced", "unknown", 10.0, None)
    unknown = (DAY, "a", "w", "productive", "", "rate_card", "USD", 1.0, "9")
    watched(own_home, ledger=[*LEDGER, unpriced, unknown], workloads=[*WORKLOADS, ("w", "a", "w", "unknown")])
    # 10 of 21 hours; 9 of 36 USD with the commitment of 7
    assert (
        "10.0 GPU-hours of the fleet have no price on 2026-11-09: 47.6% of its time" in said(own_home, "u,unpriced_share")[0][1]
    )
    assert "No known team answers for 9.00 USD of the fleet on 2026-11-09: 25.0%" in said(own_home, "k,unknown_share,1%")[0][1]


def test_a_published_version_that_lacks_a_table_is_told_and_the_other_rules_are_asked(own_home: Home) -> None:
    rule(own_home, "s,source_silent,26", "g,ghost_money,1,USD")
    with duckdb.connect(str(own_home.published_database)) as connection:
        connection.execute("drop table fct_collection_runs")
    found = evaluate(own_home, NOW)
    assert found.undetermined == {"s"}
    assert found.problems == ["s: v000007 lacks what source_silent needs; build and publish again"]
    assert [firing.rule.name for firing in found.firings] == ["g"]


def test_the_mail_says_what_fires_and_to_a_team_its_own_only(own_home: Home) -> None:
    rule(own_home, "teams,ghost_money,0.5,USD,,team", "fleet,ghost_money,1,USD", "held,build_held")

    def alerts(edition: Edition) -> list[str]:
        return read_alerts(own_home, read(own_home, edition))

    worst, fleet = alerts(Edition())
    assert worst.startswith("teams: Ghost capacity of the time that nobody held cost 13.00 USD")
    assert worst.endswith(" And 2 more.")
    assert fleet == "fleet: Ghost capacity of the fleet cost 16.00 USD on 2026-11-09, above 1.00."
    assert alerts(Edition("apps")) == ["teams: Ghost capacity of team apps cost 2.00 USD on 2026-11-09, above 0.50."]


def test_names_that_came_as_data_are_cleaned(own_home: Home) -> None:
    name = "<script>\r\nBcc: x\u202e" + "x" * 9999
    ghost = (DAY, "a", name, "idle_compute", "", "rate_card", "USD", 1.0, "99")
    watched(own_home, ledger=[*LEDGER, ghost], workloads=[*WORKLOADS, (name, "a", name, name)])
    ((_, says),) = said(own_home, "g,ghost_money,50,USD,,workload")
    assert "\n" not in says
    assert "\u202e" not in says
    assert len(says) < 300


def test_nothing_published_is_nothing_asked(home: object) -> None:
    empty = Home.from_environment().create()
    rule(empty, "g,ghost_money,1,USD", "h,build_held")
    found: Evaluation = evaluate(empty, NOW)
    assert (found.undetermined, found.firings, found.publication_id) == ({"g"}, [], None)
