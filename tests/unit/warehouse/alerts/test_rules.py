"""The file of alert rules: what it takes, what it refuses, and what it says then."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.unit.warehouse.alerts.watched_fleet import rule
from warehouse.alerts.kinds import KINDS
from warehouse.alerts.rules import read_rules, rules_path, template
from warehouse.home import Home
from warehouse.init.command import init
from warehouse.init.files import ConfigError


@pytest.fixture
def own_home(home: object) -> Home:
    return Home.from_environment().create()


def test_no_file_is_no_rule(own_home: Home) -> None:
    assert read_rules(own_home) == ([], [])


def test_what_init_writes_is_read_without_a_problem_and_stays_as_it_is(own_home: Home) -> None:
    init(own_home)
    rules, problems = read_rules(own_home)
    assert problems == []
    assert [found.kind.name for found in rules] == ["build_held", "build_failed", "source_silent", "bill_does_not_close"]
    assert all(kind in template() for kind in KINDS)
    rules_path(own_home).write_text("rule,kind\nmine,build_held\n")
    init(own_home)
    assert rules_path(own_home).read_text() == "rule,kind\nmine,build_held\n"


def test_every_example_of_the_template_works_when_it_is_switched_on(own_home: Home) -> None:
    lines = template().splitlines()
    header = next(number for number, line in enumerate(lines) if line.startswith("rule,"))
    lines[header:] = [line.removeprefix("# ") for line in lines[header:]]
    rules_path(own_home).write_text("\n".join(lines))
    rules, problems = read_rules(own_home)
    assert problems == []
    assert {found.kind.name for found in rules} == set(KINDS)


def test_a_rule_has_its_limit_in_the_kinds_unit_and_its_words_in_any_case(own_home: Home) -> None:
    rule(own_home, "g,GHOST_MONEY,1000.50,usd,Month,Team,,,,,a@example.com SLACK,tell", "n,gpu_net_below,60%")
    (ghosts, net), problems = read_rules(own_home)
    assert problems == []
    assert (ghosts.limit, ghosts.currency, ghosts.period, ghosts.per) == (Decimal("1000.50"), "USD", "month", "team")
    assert (ghosts.notify, ghosts.tells_end) == (("a@example.com", "slack"), True)
    assert (net.limit, net.per, net.notify, net.tells_end) == (Decimal("0.6"), "fleet", (), False)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("x,gost_money,5,USD", "no kind 'gost_money' is known; is it ghost_money? the kinds are ghost_money, gpu_net_below"),
        ("x,ghost_money,,USD", "ghost_money needs a limit, an amount such as 1000"),
        ("x,ghost_money,5", "ghost_money needs a currency: amounts in two currencies are never added"),
        ("x,ghost_money,5%,USD", "'5%' is no limit of ghost_money: write an amount such as 1000"),
        ("x,ghost_money,NaN,USD", "'NaN' is no limit"),
        ("x,gpu_net_below,60", "'60' is no limit of gpu_net_below: write a share such as 0.95 or 95%"),
        ("x,gpu_net_below,-1", "'-1' is no limit"),
        ("x,gpu_net_below,0.6,USD", "gpu_net_below is no money: leave currency empty"),
        ("x,build_failed,3", "build_failed has no limit: leave it empty"),
        ("x,ghost_money,5,USD,week", "period 'week' is none of ghost_money: write day or month"),
        ("x,gpu_net_below,0.6,,,team", "per 'team' is none of gpu_net_below: write fleet or cluster"),
        ("x,gpu_net_below,0.6,,,,,research", "team says nothing about gpu_net_below: leave it empty (cluster can narrow it)"),
        ("x,build_held,,,,,,,,,pager", "notify 'pager' is no channel: write slack or teams or webhook, or a mail address"),
        ("x,build_held,,,,,,,,,a@@b", "is no mail address"),
        ("x,build_held,,,,,,,,,,maybe", "when_over 'maybe' is none of build_held: write silent or tell"),
        (",build_held", "'' is no name of a rule"),
        ('"x', "quotes come in pairs"),
    ],
)
def test_a_line_that_is_no_rule_says_why_and_keeps_none_of_the_others_back(own_home: Home, line: str, says: str) -> None:
    rule(own_home, "good,build_failed", line, "also good,build_held")
    rules, (problem,) = read_rules(own_home)
    assert [found.name for found in rules] == ["good", "also good"]
    assert problem.startswith(f"{rules_path(own_home)}, line 3: ")
    assert says in problem


def test_two_rules_of_one_name_are_one(own_home: Home) -> None:
    rule(own_home, "x,build_failed", "x,build_held")
    rules, (problem,) = read_rules(own_home)
    assert [found.kind.name for found in rules] == ["build_failed"]
    assert "line 3: line 2 has the name 'x' already; give it another one" in problem


def test_a_column_that_nobody_knows_would_watch_too_widely_and_is_refused(own_home: Home) -> None:
    rules_path(own_home).write_text("rule,kind,limit,clutser\nx,gpu_net_below,0.6,a\n")
    with pytest.raises(ConfigError, match="no column 'clutser' is known; is it cluster"):
        read_rules(own_home)
    rules_path(own_home).write_text("name,kind\nx,build_held\n")
    with pytest.raises(ConfigError, match="line 1: no column rule"):
        read_rules(own_home)
