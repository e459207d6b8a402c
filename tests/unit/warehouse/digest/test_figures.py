"""What a digest says of a small fleet that is worked by hand, and of fleets with less in them."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from tests.unit.warehouse.digest import small_fleet
from tests.unit.warehouse.digest.small_fleet import DAY, ECONOMICS, LEDGER, hold, publish
from warehouse.digest.editions import Edition
from warehouse.digest.figures import Figures
from warehouse.digest.reading import HeldFromTheStartError, NothingPublishedError, UnknownTeamError, read
from warehouse.digest.render import render
from warehouse.home import Home

FLEET, APPS = Edition(), Edition("apps")


@pytest.fixture
def own_home(home: Path) -> Home:
    return Home.from_environment().create()


def _steps(figures: Figures) -> dict[str, tuple[float, dict[str, Decimal]]]:
    return {step.state: (step.amount.gpu_hours, step.amount.costs) for step in figures.steps if step.amount.costs}


def test_the_day_is_the_last_whole_one_that_the_publication_covers(own_home: Home) -> None:
    publish(own_home, through="2026-11-10 00:00")
    assert read(own_home, FLEET).usage_date == date(2026, 11, 9)
    publish(own_home, through="2026-11-09 23:59")
    assert read(own_home, FLEET).usage_date == date(2026, 11, 8)
    publish(own_home, through="2026-12-24 00:00")
    assert read(own_home, FLEET).usage_date == date(2026, 11, 9), "a rate card that reaches far ahead makes no new days"
    publish(own_home, through=None)
    assert read(own_home, FLEET).usage_date == date(2026, 11, 9)


def test_gpu_net_and_its_change_are_ratios_of_sums(own_home: Home) -> None:
    publish(own_home)
    figures = read(own_home, FLEET)
    assert figures.today is not None
    assert figures.day_before is not None
    assert (figures.today.ratio, figures.day_before.ratio) == (0.5, 0.4)
    assert render(figures).subject == "GPU Net 50.0% (+10.0 points), 16.00 USD lost · 2026-11-09"


def test_the_steps_of_the_waterfall_add_up_to_the_first_unused_commitments_included(own_home: Home) -> None:
    publish(own_home)
    figures = read(own_home, FLEET)
    assert [step.state for step in figures.steps][:5] == ["out_of_service", "unallocated", "borrowed", "unobserved", "suspended"]
    assert [step.state for step in figures.steps][-2:] == ["productive", "commitment_unused"]
    assert figures.whole.gpu_hours == 10.0
    assert figures.whole.costs == {"USD": Decimal("27")}
    assert figures.lost.costs == {"USD": Decimal("16")}
    text = render(figures).text
    assert "Capacity                      10.0 GPU-hours           27.00 USD" in text
    assert "- Unused commitment                                     7.00 USD" in text


def test_where_too_little_was_observed_the_interval_is_said_and_no_change(own_home: Home) -> None:
    blind = (DAY, "a", "a/x/train", "unobserved", "gap", "rate_card", "USD", 1.0, "2")
    publish(own_home, [*LEDGER, blind])
    digest = render(read(own_home, FLEET))
    assert digest.subject.startswith("GPU Net 45.0% to 55.0%, 16.00 USD lost")
    assert "Too little was observed for one number" in digest.text
    assert "The day before: 40.0%" in digest.text


def test_a_week_is_compared_with_only_if_every_day_of_it_is_known(own_home: Home) -> None:
    week = [(f"2026-11-0{day}", "a", "a/x/chat", "productive", "", "billing", "USD", 1.0, "2") for day in range(2, 9)]
    idle = (DAY, "a", "a/x/chat", "idle_compute", "", "billing", "USD", 1.0, "2")
    publish(own_home, [*week, (DAY, *week[0][1:]), idle])
    assert "−50.0 points on the seven days before (100.0%)" in render(read(own_home, FLEET)).text
    publish(own_home, [*week[1:], (DAY, *week[0][1:]), idle])
    assert "seven days before" not in render(read(own_home, FLEET)).text


def test_currencies_stand_side_by_side_and_time_without_a_price_is_told(own_home: Home) -> None:
    others = [
        (DAY, "b", "b/y/batch", "idle_compute", "", "billing", "EUR", 2.0, "5"),
        (DAY, "b", "b/y/batch", "idle_compute", "", "unpriced", "unknown", 1.0, None),
    ]
    publish(own_home, [*LEDGER, *others], [*small_fleet.WORKLOADS, ("b/y/batch", "b", "batch", "unknown")])
    figures = read(own_home, FLEET)
    assert not figures.is_ranked_by_money, "two currencies cannot be ranked"
    digest = render(figures)
    assert "5.00 EUR + 16.00 USD + ? lost" in digest.subject
    assert "1.0 GPU-hours have no price" in digest.text
    assert "Without a price: no price, 1.0 GPU-hours" in digest.text
    assert "21.00" not in digest.text


def test_a_fleet_without_any_price_counts_hours(own_home: Home) -> None:
    unpriced = [(*row[:5], "unpriced", "unknown", row[7], None) for row in LEDGER]
    publish(own_home, unpriced, commitments=[], economics=[])
    digest = render(read(own_home, FLEET))
    assert digest.subject == "GPU Net 50.0% (+10.0 points), 4.5 GPU-hours lost · 2026-11-09"
    assert "10.0 GPU-hours have no price: a rate card or a bill would tell what they cost." in " ".join(digest.text.split())


def test_money_is_said_by_where_it_comes_from(own_home: Home) -> None:
    estimate = (DAY, "a", "a/x/train", "productive", "", "estimate", "USD", 2.0, "3")
    publish(own_home, [*LEDGER, estimate])
    text = render(read(own_home, FLEET)).text
    assert "Billed by the provider: 8.00 USD, 4.0 GPU-hours" in text
    assert "Billed, commitments that nothing used: 7.00 USD" in text
    assert "From your rate card: 12.00 USD, 6.0 GPU-hours" in text
    assert "Estimated from the last bill, until the next one comes: 3.00 USD, 2.0 GPU-hours" in text


def test_the_largest_ghosts_come_first_with_reason_and_what_to_do(own_home: Home) -> None:
    publish(own_home)
    figures = read(own_home, FLEET)
    assert [ghost.state for ghost in figures.ghosts] == [
        "commitment_unused",
        "unallocated",
        "reserved_memory",
        "pipeline_waiting",
    ]
    text = render(figures).text
    assert (
        "train (a, team research)\n    Pipeline waiting: stalls between two active minutes\n    1.00 USD, 0.5 GPU-hours\n" in text
    )
    assert "→ Feed the GPUs" in text


def test_what_moved_is_told_up_then_down_with_new_and_gone(own_home: Home) -> None:
    gone = (small_fleet.DAY_BEFORE, "a", "a/x/train", "suspended", "position_unknown", "rate_card", "USD", 4.0, "8")
    publish(own_home, [*LEDGER, gone])
    moves = [(move.workload, move.state, move.kind, move.change.costs["USD"]) for move in read(own_home, FLEET).moves]
    assert moves == [
        ("unallocated", "commitment_unused", "new", Decimal("7")),
        ("chat", "productive", "new", Decimal("6")),
        ("unallocated", "out_of_service", "new", Decimal("2")),
        ("unallocated", "unallocated", "", Decimal("2")),
        ("train", "pipeline_waiting", "new", Decimal("1")),
        ("train", "suspended", "gone", Decimal("-8")),
        ("train", "productive", "", Decimal("-1")),
    ]


def test_unit_costs_are_the_marts_and_their_change_is_since_the_day_before(own_home: Home) -> None:
    publish(own_home)
    text = render(read(own_home, FLEET)).text
    assert "0.5333 USD per million tokens, +6.7%; 2.000 USD per 1,000 successful\n    requests, +100.0%" in text
    assert "idle-model (train, a)\n    0 tokens, 0 requests\n    – no tokens" in text


def test_a_list_price_stands_beside_our_own_where_one_is_configured(own_home: Home) -> None:
    day, workload, model, currency, prompt, output, *rest = ECONOMICS[1]
    listed = (day, workload, model, currency, prompt, output, *rest, Decimal("0.2"), None, "big-llm", "alpha", 2.6665)
    publish(own_home, economics=[ECONOMICS[0], listed])
    text = " ".join(render(read(own_home, FLEET)).text.split())
    assert "0.2000 USD per million tokens is the list price of big-llm of alpha: ours is 2.67 times that" in text
    publish(own_home)
    assert "list price" not in render(read(own_home, FLEET)).text


def test_a_silent_source_and_quarantined_rows_are_told(own_home: Home) -> None:
    publish(own_home)
    text = render(read(own_home, FLEET)).text
    assert "dcgm (b): 0.0%; silent: no row for this day" in text
    assert "dcgm (a): 90.0%; 2,160 rows, 3 quarantined, last landed 11-10 00:05" in text


def test_warnings_of_the_gate_are_in_the_fleets_edition_only(own_home: Home) -> None:
    publish(own_home, warnings=["Rows of source x were thrown away."])
    assert "Rows of source x were thrown away." in render(read(own_home, FLEET)).text
    assert "thrown away" not in render(read(own_home, APPS)).text


def test_a_team_sees_its_own_workloads_and_nothing_of_the_others_or_the_fleet(own_home: Home) -> None:
    publish(own_home)
    figures = read(own_home, APPS)
    assert _steps(figures) == {"reserved_memory": (1.0, {"USD": Decimal("2")}), "productive": (3.0, {"USD": Decimal("6")})}
    assert figures.today is not None
    assert figures.today.ratio == 0.75
    digest = render(figures)
    for other in ("train", "research", "commitment", "Unallocated", "50.0%", "27.00", "idle-model", "dcgm (b)"):
        assert other not in digest.text
        assert other not in digest.html.replace("word-break", "")
    assert digest.subject == "team apps: productive 75.0% (+75.0 points), 2.00 USD lost · 2026-11-09"


def test_a_team_that_held_nothing_is_told_so_and_one_that_nobody_knows_is_an_error(own_home: Home) -> None:
    publish(own_home, workloads=[*small_fleet.WORKLOADS, ("a/z/old", "a", "old", "retired")])
    digest = render(read(own_home, Edition("retired")))
    assert digest.subject == "team retired: no GPU time · 2026-11-09"
    assert "No workload of the team held a GPU on 2026-11-09." in digest.text
    assert digest.pictures == {}
    with pytest.raises(UnknownTeamError, match="knows no team 'nobody'; teams it knows: apps, research, retired"):
        read(own_home, Edition("nobody"))


def test_a_held_build_is_one_line_with_its_reason(own_home: Home) -> None:
    publish(own_home)
    hold(own_home, datetime(2026, 11, 10, 1, 40))
    digest = render(read(own_home, FLEET))
    assert digest.subject.endswith("· 2026-11-09 · newest build held")
    said = " ".join(digest.text.split())
    assert "The newest build (build-8, checked 2026-11-10 01:40 UTC) is held by the gate" in said
    assert "- fct_gpu_ledger_hourly: Two rows are one." in said
    hold(own_home, datetime(2026, 11, 10, 1, 40), build_id="build-7")
    assert "held" not in render(read(own_home, FLEET)).subject, "that build was let through later"


def test_a_hold_that_lasts_past_noon_gets_the_mail_of_the_day_that_readers_wait_for(own_home: Home) -> None:
    publish(own_home)
    hold(own_home, datetime(2026, 11, 11, 11, 59))
    assert read(own_home, FLEET).mail_date == date(2026, 11, 9)
    hold(own_home, datetime(2026, 11, 11, 12, 0))
    figures = read(own_home, FLEET)
    assert (figures.usage_date, figures.mail_date) == (date(2026, 11, 9), date(2026, 11, 10))
    assert render(figures).subject.startswith("No figures for 2026-11-10: the newest build is held · 2026-11-09: GPU Net 50.0%")


def test_without_a_publication_the_message_says_what_to_do(own_home: Home) -> None:
    with pytest.raises(NothingPublishedError, match="nothing is published yet: land a source, then"):
        read(own_home, FLEET)
    hold(own_home, datetime(2026, 11, 10, 1, 40))
    with pytest.raises(HeldFromTheStartError, match="the gate holds build build-8: fct_gpu_ledger_hourly: Two rows are one"):
        read(own_home, FLEET)


def test_an_empty_database_and_a_first_day_that_is_not_over_are_told(own_home: Home) -> None:
    publish(own_home, [], commitments=[], economics=[], coverage=[])
    with pytest.raises(NothingPublishedError, match="v000007 holds no GPU's time yet"):
        read(own_home, FLEET)
    today = [row for row in LEDGER if row[0] == DAY]
    publish(own_home, today, through="2026-11-09 14:30")
    with pytest.raises(NothingPublishedError, match=r"the first, 2026-11-09, is covered through 14:30 UTC.*--date 2026-11-09"):
        read(own_home, FLEET)
    partial = render(read(own_home, FLEET, date(2026, 11, 9)))
    assert "This day is not complete: data go through 2026-11-09 14:30 UTC." in partial.text


def test_on_the_first_day_nothing_is_compared(own_home: Home) -> None:
    publish(own_home, [row for row in LEDGER if row[0] == DAY])
    digest = render(read(own_home, FLEET))
    assert digest.subject == "GPU Net 50.0%, 16.00 USD lost · 2026-11-09"
    assert "The first day there is: nothing to compare with yet" in digest.text
    assert "WHAT MOVED (nothing is known of the day before)" in digest.text
    assert list(digest.pictures) == ["waterfall"]


def test_a_day_without_a_gpu_in_inventory_is_a_mail_of_one_sentence(own_home: Home) -> None:
    publish(own_home)
    digest = render(read(own_home, FLEET, date(2026, 11, 5)))
    assert digest.subject == "no GPU in inventory · 2026-11-05"
    assert "No GPU was in inventory on 2026-11-05." in digest.text


def test_readers_of_the_database_are_not_kept_from_it(own_home: Home) -> None:
    path = publish(own_home)
    with duckdb.connect(str(path), read_only=True):
        assert read(own_home, FLEET).days
