"""What the report says of days that moved since the version before, and of the alert rules that its figures break."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from tests.unit.expectations.fake_build import allow, make_build
from tests.unit.warehouse.alerts.watched_fleet import rule
from tests.unit.warehouse.digest.small_fleet import LEDGER, WORKLOADS
from tests.unit.warehouse.digest.test_restated import EARLIER, NAME, with_late_rows
from tests.unit.warehouse.report.reported_fleet import publish
from warehouse.alerts.rules import rules_path
from warehouse.digest.editions import Edition
from warehouse.digest.reading import read
from warehouse.digest.render import render
from warehouse.home import Home
from warehouse.publication import publish as publishing
from warehouse.report import moved
from warehouse.report.write import write_report


@pytest.fixture
def own_home(home: Path) -> Home:
    return Home.from_environment().create()


def words_of(page: str, section: str) -> str:
    """The words of a section, as they are read."""
    found = re.search(rf'<section id="{section}".*?</section>', page, re.DOTALL)
    assert found
    text = re.sub(r"<[^>]+>", " ", found[0])
    for written, read_as in (("&lt;", "<"), ("&gt;", ">"), ("&#39;", "'"), ("&#34;", '"'), ("&amp;", "&")):
        text = text.replace(written, read_as)
    return " ".join(text.split())


def test_an_earlier_day_that_moved_is_listed_as_in_the_mail(own_home: Home) -> None:
    before = publish(own_home, **EARLIER)
    database = publish(own_home, ledger=with_late_rows())
    said = words_of(write_report(database, before=before).read_text(), "moved")
    assert "Since the publication before, v000006, figures of 2026-11-08 moved." in said
    assert "40.00% → 33.33%" in said
    assert "2.00 USD → 4.00 USD" in said
    mail = render(read(own_home, Edition())).text.split("EARLIER DAYS THAT MOVED")[1].split("WHERE THE PRICES")[0]
    figures = re.findall(r"[\d.,]+%? (?:[A-Za-z-]+ )?→ \S+", " ".join(mail.split()))
    assert len(figures) >= 3
    assert [figure for figure in figures if figure not in said] == []


def test_a_day_that_did_not_move_is_said_to_stand(own_home: Home) -> None:
    before = publish(own_home, **EARLIER)
    said = words_of(write_report(publish(own_home), before=before).read_text(), "moved")
    assert "Since the publication before, v000006, no figure of an earlier day moved." in said


def test_without_a_version_before_the_page_says_so(own_home: Home) -> None:
    said = words_of(write_report(publish(own_home)).read_text(), "moved")
    assert "There is no version before this one to compare with." in said


@pytest.mark.parametrize("harm", ["gone", "no database", "error"])
def test_a_version_that_cannot_be_compared_with_leaves_the_page_as_it_is(
    own_home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, harm: str
) -> None:
    before = publish(own_home, **EARLIER)
    database = publish(own_home, ledger=with_late_rows())
    if harm == "gone":
        before.unlink()
    elif harm == "no database":
        before.write_text("no database")
    else:

        def fail(*given: object) -> None:
            raise MemoryError

        monkeypatch.setattr(moved, "tell_restated", fail)
    with caplog.at_level(logging.WARNING):
        said = words_of(write_report(database, before=before).read_text(), "moved")
    assert "v000006, cannot be told: " in said
    assert "largest changes" in said, "the last whole day is still compared with the day before it"


def test_a_new_version_is_compared_with_the_one_that_readers_saw(home: Path) -> None:
    own = Home.from_environment()
    said = []
    for number in (1, 2):
        change = f"update fct_gpu_ledger_hourly set energy_kwh = {number} where usage_date = '2025-03-02'"
        allow(own, make_build(own, change, number=number))
        publishing.publish(own)
        said.append(words_of((own.published / "report.html").read_text(), "moved"))
    assert "no version before" in said[0]
    assert "the publication before, v000001, " in said[1]
    assert "cannot be" not in said[1]


def test_a_hostile_name_that_moved_is_text(own_home: Home) -> None:
    workloads = [*WORKLOADS, (NAME, "a", NAME, NAME)]
    before = publish(own_home, workloads=workloads, **EARLIER)
    database = publish(own_home, ledger=with_late_rows(NAME, 5.0), workloads=workloads)
    page = write_report(database, before=before).read_text()
    assert "<script>alert(1)</script>" not in page
    assert "<script>alert(1)</script>" in words_of(page, "moved")


def test_the_rules_that_the_figures_break_are_named_with_what_they_say(own_home: Home) -> None:
    rule(own_home, "<b>ghosts</b>,ghost_money,10,USD", "net,gpu_net_below,40%", "held,build_held")
    database = publish(own_home)
    page = write_report(database, own_home).read_text()
    said = words_of(page, "alerts")
    assert "1 of 2 rules about published figures fired when this version was published, 2026-11-10 00:40 UTC." in said
    assert "<b>ghosts</b> Ghost capacity of the fleet cost 16.00 USD on 2026-11-09, above 10.00." in said
    assert "&lt;b&gt;ghosts" in page
    assert "GPU Net of" not in said


def test_rules_that_cannot_be_asked_are_told_and_keep_nobody_from_the_page(own_home: Home) -> None:
    database = publish(own_home)
    assert "No rule about published figures is set" in words_of(write_report(database, own_home).read_text(), "alerts")
    rule(own_home, "net,gpu_net_below,40%", "wrong,no_such_kind", "silence,source_silent,5")
    said = words_of(write_report(database, own_home).read_text(), "alerts")
    assert "None of 1 rule about published figures fired" in said
    assert "1 could not be asked." in said
    assert "config/alert_rules.csv, line 3: no kind 'no_such_kind' is known" in said
    assert f"{own_home.root}" not in said
    assert "silence: v000007 lacks what source_silent needs" in said
    rules_path(own_home).write_text("nonsense\n1\n")
    assert "The rules cannot be read, so that none was asked." in words_of(write_report(database, own_home).read_text(), "alerts")


def test_a_fleet_without_a_whole_day_asks_nothing_of_it(own_home: Home) -> None:
    rule(own_home, "ghosts,ghost_money,1,USD")
    first = [row for row in LEDGER if row[0] == "2026-11-09"]
    database = publish(own_home, ledger=first, through="2026-11-09 12:00")
    assert "1 could not be asked." in words_of(write_report(database, own_home).read_text(), "alerts")
