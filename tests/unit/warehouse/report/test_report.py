"""The report: one file that needs nothing, says what the mail and the tables say, and never keeps a version from readers."""

from __future__ import annotations

import base64
import hashlib
import logging
import re
from collections import defaultdict
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.unit.expectations.fake_build import allow, make_build
from tests.unit.warehouse.digest.small_fleet import COVERAGE, DAY, DAY_BEFORE, ECONOMICS, LEDGER, WORKLOADS
from tests.unit.warehouse.report.reported_fleet import publish
from warehouse.database import connect
from warehouse.digest.editions import Edition
from warehouse.digest.reading import read
from warehouse.first_screen import Amount
from warehouse.home import PROJECT_ROOT, Home
from warehouse.publication import publish as publishing
from warehouse.report import chargeback, write
from warehouse.report.chargeback import BASES
from warehouse.report.page import unpack
from warehouse.report.write import write_report

HOSTILE = [
    "</script><script>document.title='taken'</script>",
    "'); drop table dim_gpus; --",
    "a\r\nb\u2028c\u2029d\x00e",
    "\u202eevil\u2066",
    "{{ 7 * 7 }}{a|x}${7*7}",
    '"><img src=x onerror=alert(1)>',
    "x" * 10_000,
]
#: what npm publishes as dist/echarts.min.js of echarts 6.1.0
ECHARTS_SHA256 = "b66b25aeb4df84e33199dc21694014d336d222cbd9deb0e5a7c14bd6aa0d0fd0"


class _Elements(HTMLParser):
    """Every element with its attributes, and what stands in each script."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text = ""
        self._inside = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        else:
            self.text += data


@pytest.fixture
def own_home(home: Path) -> Home:
    return Home.from_environment().create()


def contents_of(page: Path) -> dict[str, Any]:
    found = re.search(r'id="numbers-packed">([^<]*)<', page.read_text())
    assert found
    return unpack(found[1])


def summed(contents: dict[str, Any], part: str, scale: int, *names: str, day: int | None = None) -> dict[tuple[Any, ...], Amount]:
    """A part's cells, of one day where one is given, by the named columns, as amounts; what is nothing is left out."""
    cells = contents[part]
    amounts: dict[tuple[Any, ...], Amount] = defaultdict(Amount)
    for i, hours in enumerate(cells["hours"]):
        if day is not None and cells["day" if part == "fleet" else "bucket"][i] != day:
            continue
        currency = cells["currency"][i]
        cost = None if currency < 0 else Decimal(cells["cost"][i]) / scale
        amounts[tuple(cells[name][i] for name in names)].add(
            hours / scale, "" if currency < 0 else contents["currencies"][currency], cost
        )
    return dict(amounts)


def rounded(amount: Amount) -> tuple[float, float, dict[str, float]]:
    costs = {currency: round(float(cost), 3) for currency, cost in amount.costs.items() if cost}
    return round(amount.gpu_hours, 3), round(amount.unpriced_gpu_hours, 3), costs


def test_the_last_day_is_what_the_mail_says_of_it_and_what_the_marts_hold(own_home: Home) -> None:
    blind = [
        (DAY, "a", "a/x/train", "unobserved", "gap", "rate_card", "USD", 0.25, "0.5"),
        (DAY, "a", "a/x/chat", "idle_compute", "", "unpriced", "unknown", 1.5, None),
        (DAY, "a", "a/x/chat", "idle_compute", "", "billing", "EUR", 0.5, "1.25"),
    ]
    database = publish(own_home, ledger=[*LEDGER, *blind])
    contents, figures = contents_of(write_report(database)), read(own_home, Edition())
    states = [state["state"] for state in contents["states"]]
    assert states == [step.state for step in figures.steps]
    day = contents["last_whole_day"]
    assert contents["first"] == DAY_BEFORE
    assert day == 1
    by_state = {states[state]: rounded(amount) for (state,), amount in summed(contents, "fleet", 10**6, "state", day=day).items()}
    assert by_state == {step.state: rounded(step.amount) for step in figures.steps if step.amount.gpu_hours or step.amount.costs}

    ghosts = {}
    for (workload, state, reason), amount in summed(contents, "holders", 10**4, "workload", "state", "reason", day=day).items():
        if contents["states"][state]["is_ghost"]:
            ghosts[contents["workloads"][workload]["name"], contents["states"][state]["label"], contents["reasons"][reason]] = (
                rounded(amount)
            )
    names = {"unallocated": "held by nobody", "free": "nobody asked for it", "stall": "stalls between two active minutes"}
    said = {
        ("commitments" if ghost.state == "commitment_unused" else names.get(ghost.workload, ghost.workload), ghost.label,
         names.get(ghost.reason, ghost.reason or "–")): rounded(ghost.amount)
        for ghost in figures.ghosts
    }  # fmt: skip
    assert ghosts == said
    with connect(database, read_only=True) as connection:
        rows = connection.execute(
            """select state, round(sum(gpu_hours), 3), round(coalesce(sum(cost) filter (currency = 'USD'), 0), 3)
            from mart_ghost_capacity_daily where usage_date = ? group by state""",
            [DAY],
        ).fetchall()
    assert {state: (hours, float(cost)) for state, hours, cost in rows} == {
        state: (hours, costs.get("USD", 0.0)) for state, (hours, _, costs) in by_state.items()
    }
    held = [place for place, state in enumerate(contents["states"]) if state["is_in_service"]]
    in_service = sum(by_state[states[place]][0] for place in held if states[place] in by_state)
    assert figures.today is not None
    assert in_service == pytest.approx(figures.today.base)


def test_unit_costs_are_those_of_the_mail(own_home: Home) -> None:
    contents, figures = contents_of(write_report(publish(own_home))), read(own_home, Edition())
    economics = contents["economics"]
    rows = economics["rows"]
    found = {
        (economics["services"][service]["model"], economics["services"][service]["currency"]): (tokens, requests, price)
        for service, day, tokens, requests, price in zip(
            rows["service"], rows["day"], rows["tokens"], rows["requests"], rows["per_million"], strict=True
        )
        if day == contents["last_whole_day"]
    }
    assert found == {
        (cost.model, cost.currency): (
            cost.tokens,
            cost.requests,
            None if cost.per_million_tokens is None else round(cost.per_million_tokens * 10**6),
        )
        for cost in figures.unit_costs
    }


def test_by_whoever_it_is_charged_the_month_is_the_same_and_nobodys_lines_make_it_whole(own_home: Home) -> None:
    charged = contents_of(write_report(publish(own_home)))["chargeback"]
    lines = charged["lines"]
    for choice, found in charged["choices"].items():
        rows = found["rows"]
        held = {basis: sum(rows[basis]) for basis in BASES}
        assert held == {"allocation": 18_000_000, "usage": 13_000_000, "fully_loaded": 18_000_000}, choice
        assert {basis: held[basis] + sum(lines[basis]) for basis in BASES} == dict.fromkeys(BASES, 35_500_000), choice
        assert sum(rows["hours"]) + sum(lines["hours"]) == 15 * 10_000, choice
    by_application = dict(
        zip(
            (
                charged["choices"]["application"]["members"][place]["name"]
                for place in charged["choices"]["application"]["rows"]["member"]
            ),
            charged["choices"]["application"]["rows"]["allocation"],
            strict=True,
        )
    )
    assert by_application == {"app of chat": 10_000_000, "app of train": 8_000_000}
    nobodys = dict(zip(lines["line"], zip(lines["allocation"], lines["usage"], lines["fully_loaded"], strict=True), strict=True))
    assert nobodys == {
        "held_unused": (0, 5_000_000, 0),
        "unallocated": (10_000_000,) * 3,
        "out_of_service": (2_000_000,) * 3,
        "commitment_unused": (7_000_000,) * 3,
        "non_time": (-1_500_000,) * 3,
    }
    assert set(nobodys) <= set(charged["labels"])


def test_of_very_many_the_largest_are_charged_by_name_and_the_others_together(
    own_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chargeback, "MOST_CHARGEBACK_ROWS", 1)
    charged = contents_of(write_report(publish(own_home)))["chargeback"]["choices"]["workload"]
    names = [charged["members"][place]["name"] for place in charged["rows"]["member"]]
    assert dict(zip(names, charged["rows"]["allocation"], strict=True)) == {"chat": 10_000_000, "other workloads": 8_000_000}


EURO = (DAY, "a", "a/x/chat", "idle_compute", "", "billing", "EUR", 0.5, "10")


def test_money_of_several_currencies_has_its_exchange_beside_it_where_rates_are(own_home: Home) -> None:
    database = publish(own_home, ledger=[*LEDGER, EURO], rates={"USD": 1, "EUR": 1.25})
    contents = contents_of(write_report(database))
    assert contents["reporting"] == "USD"
    with connect(database, read_only=True) as connection:
        (reported,) = connection.execute("select sum(cost_reporting) from mart_ghost_capacity_daily").fetchall()[0]
    for part, scale in (("fleet", 10**6), ("holders", 10**4)):
        cells = contents[part]
        assert sum(cells["cost"]) + sum(cells["exchange"]) == int(reported * scale), part
        assert sorted(set(cells["exchange"])) == [0, int(2.5 * scale)], part
    teams = contents["chargeback"]["choices"]["team"]["rows"]
    assert sum(teams["allocation"]) + sum(teams["allocation_exchange"]) == 18_000_000 + 12_500_000


def test_a_day_without_a_rate_has_no_exchange_and_is_not_nothing(own_home: Home) -> None:
    contents = contents_of(write_report(publish(own_home, ledger=[*LEDGER, EURO], rates={"USD": 1, "EUR": 1.25}, rates_from=DAY)))
    fleet = contents["fleet"]
    assert {exchange for day, exchange in zip(fleet["day"], fleet["exchange"], strict=True) if day == 0} == {None}
    assert None not in [exchange for day, exchange in zip(fleet["day"], fleet["exchange"], strict=True) if day == 1]
    assert None in contents["chargeback"]["choices"]["team"]["rows"]["allocation_exchange"], "the month has such a day"


@pytest.mark.parametrize("rates", [{}, {"USD": 1}], ids=["no rate", "nothing to convert"])
def test_without_another_currency_or_a_rate_nothing_is_converted(own_home: Home, rates: dict[str, float]) -> None:
    ledger = LEDGER if rates else [*LEDGER, EURO]
    contents = contents_of(write_report(publish(own_home, ledger=ledger, rates=rates)))
    assert contents["reporting"] is None
    assert "exchange" not in {*contents["fleet"], *contents["holders"]}
    assert not [name for name in contents["chargeback"]["lines"] if "exchange" in name]


def test_the_page_asks_nobody_and_runs_its_own_two_scripts_only(own_home: Home) -> None:
    page = _Elements(write_report(publish(own_home)).read_text())
    for tag, attributes in page.elements:
        assert tag not in ("img", "iframe", "object", "embed", "link", "base"), tag
        assert attributes.get("src") is None
        assert (attributes.get("href") or "#").startswith("#")
        assert not [name for name in attributes if name.startswith("on")]
    (policy,) = (a["content"] or "" for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    hashes = {f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in page.scripts[1:]}
    assert len(page.scripts) == 3
    assert set(re.findall(r"'sha256-[^']+'", policy)) == hashes
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy.split("style-src")[0]


def test_a_name_is_text_and_nothing_else(own_home: Home) -> None:
    """Wherever a name comes from: workload, team, cluster, model, currency, source, a check's message, a provider, a node."""
    plain = _Elements(write_report(publish(own_home)).read_text())
    names = [name.replace("\x00", "") for name in HOSTILE]
    database = publish(
        own_home,
        ledger=[*LEDGER, *((DAY, one, f"w{n}", "idle_compute", one, "billing", one, 50.0, "100") for n, one in enumerate(names))],
        workloads=[*WORKLOADS, *((f"w{n}", one, one, one) for n, one in enumerate(names))],
        economics=[*ECONOMICS, *((DAY, f"w{n}", one, one, 10, 10, 5, "1.5", "2.5", one) for n, one in enumerate(names))],
        coverage=[*COVERAGE, *((DAY, one, one, 1.0, 0.5, 10, 1, "2026-11-10 00:00") for one in names)],
        warnings=names,
    )
    with duckdb.connect(str(database)) as connection:
        for one in names:
            connection.execute(
                "insert into mart_cost_reconciliation_daily values (?, ?, ?, ?, 1, 1, 0, 0, 0, 0, true)", [DAY, one, one, one]
            )
            connection.execute("insert into dim_gpus values (?, ?, ?, ?, ?)", [one] * 5)
    path = write_report(database)
    text = path.read_text()
    page = _Elements(text)
    assert len(page.scripts) == len(plain.scripts)
    assert page.scripts[1:] == plain.scripts[1:]
    assert {tag for tag, _ in page.elements} == {tag for tag, _ in plain.elements}
    assert "onerror=alert" not in "".join(str(attributes) for _, attributes in page.elements)
    shown = text.replace(page.scripts[1], "").replace(page.scripts[2], "")
    assert not re.search("[\u2028\u2029\u202e\u2066\x00]", shown)
    assert "x" * 500 not in shown
    contents = contents_of(path)
    charged = [member["name"] for choice in contents["chargeback"]["choices"].values() for member in choice["members"]]
    said = [*(workload["name"] for workload in contents["workloads"]), *contents["clusters"], *contents["teams"], *charged]
    assert len(charged) > 3 * len(names)
    assert len(said) > 6 * len(names)
    assert all(len(name) <= 60 for name in said)
    assert not re.search("[\u2028\u2029\u202e\u2066\r\n\x00]", "".join(said))


def test_the_library_is_the_one_that_its_makers_published() -> None:
    folder = PROJECT_ROOT / "warehouse" / "report" / "vendor"
    assert hashlib.sha256((folder / "echarts.min.js").read_bytes()).hexdigest() == ECHARTS_SHA256
    assert "Apache License" in (folder / "echarts.LICENSE").read_text()
    assert "Apache ECharts" in (folder / "echarts.NOTICE").read_text()


def test_a_database_without_any_gpus_time_has_a_page_that_says_so(own_home: Home) -> None:
    page = write_report(publish(own_home, ledger=[], commitments=[], economics=[], coverage=[]))
    assert "holds no GPU&#39;s time yet" in page.read_text()
    assert contents_of(page)["days"] == 1


def test_the_same_version_gives_the_same_page(own_home: Home) -> None:
    database = publish(own_home)
    first = write_report(database).read_bytes()
    assert write_report(database).read_bytes() == first


def test_each_version_has_its_report_and_one_path_leads_to_the_current(home: Path) -> None:
    own = Home.from_environment()
    for number in (1, 2):
        change = f"update fct_gpu_ledger_hourly set energy_kwh = {number} where usage_date = '2025-03-02'"
        allow(own, make_build(own, change, number=number))
        outcome = publishing.publish(own)
        link = own.published / "report.html"
        assert link.readlink() == Path("current/report.html")
        assert f"Publication {outcome.publication_id} " in link.read_text()
        assert oct(link.stat().st_mode & 0o777) == "0o644"
    assert (own.published / "v000001" / "report.html").exists()


@pytest.mark.parametrize("error", [ValueError("no such <column>"), MemoryError(), OSError(28, "No space left on device")])
def test_a_report_that_cannot_be_made_keeps_nobody_from_the_new_version(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    def fail(*given: object) -> Path:
        raise error

    monkeypatch.setattr(write, "write_report", fail)
    own = Home.from_environment()
    allow(own, make_build(own))
    with caplog.at_level(logging.WARNING):
        assert publishing.publish(own).status == publishing.PUBLISHED
    said = (own.published / "report.html").read_text()
    assert "This version has no report" in said
    assert "<column>" not in said
    assert type(error).__name__ in said
    assert "published without a report" in caplog.text
    with connect(own.published_database, read_only=True) as connection:
        assert connection.execute("select publication_id from publication").fetchall() == [("v000001",)]


def test_half_a_report_is_never_left(own_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    database = publish(own_home)
    monkeypatch.setattr(Path, "write_text", lambda *_args, **_kinds: (_ for _ in ()).throw(OSError(28, "No space left")))
    database.with_name("report.html").write_bytes(b"<html>half")
    assert write.try_to_write_report(database) is False
    assert not database.with_name("report.html").exists()
