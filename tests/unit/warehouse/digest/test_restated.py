"""What a mail says of days that were mailed before: what moved since the last mail's version, to each edition its own lines."""

from __future__ import annotations

import shutil
from datetime import date

import duckdb
import pytest

from tests.unit.warehouse.digest.small_fleet import COVERAGE, DAY_BEFORE, LEDGER, WORKLOADS, publish
from warehouse.digest import records, restated
from warehouse.digest.editions import Edition, Recipient
from warehouse.digest.reading import read
from warehouse.digest.records import REFUSED, SENDING, SENT, Record
from warehouse.digest.render import render
from warehouse.home import Home
from warehouse.publication import publications

#: the version that held the day before in full and the day itself not
EARLIER = {"version": "v000006", "through": "2026-11-09 00:10"}
FLEET = Recipient("a@example.com", Edition())
NAME = "<script>alert(1)</script>\r\nBcc: x@example.com"


@pytest.fixture
def own_home(home: object) -> Home:
    return Home.from_environment().create()


def with_late_rows(workload: str = "a/x/chat", hours: float = 1.0) -> list[tuple[object, ...]]:
    """The ledger, with more ghost time of a workload on the day before."""
    late = (DAY_BEFORE, "a", workload, "idle_compute", "", "rate_card", "USD", hours, f"{2 * hours}")
    return [*LEDGER, late]


def mailed(home: Home, day: str, version: str, state: str = SENT, recipient: Recipient = FLEET) -> None:
    record = Record(recipient.address, str(recipient.edition), state, "<x@example.com>", 1, f"{day}T00:45:00Z", "", version)
    records.write(home, date.fromisoformat(day), recipient, record)


def test_an_earlier_day_that_moved_is_told_with_before_and_after(own_home: Home) -> None:
    publish(own_home, **EARLIER)
    publish(own_home, with_late_rows())
    digest = render(read(own_home, Edition()))
    assert "Since the publication before, v000006, figures of 2026-11-08 moved." in digest.text
    # 2 of 5 GPU-hours were productive, 2 of 6 are
    assert "40.00% → 33.33%" in digest.text
    assert "−6.67 points" in digest.text
    assert "a/x/chat" in digest.text.split("EARLIER DAYS THAT MOVED")[1]
    assert "2.00 USD → 4.00 USD" in digest.text
    assert "Earlier days that moved" in digest.html


def test_nothing_is_said_where_only_the_day_itself_is_new(own_home: Home) -> None:
    publish(own_home, [row for row in LEDGER if row[0] == DAY_BEFORE], **EARLIER)
    publish(own_home)
    assert read(own_home, Edition()).restated is None
    assert "EARLIER DAYS" not in render(read(own_home, Edition())).text


def test_a_team_sees_its_own_lines_only(own_home: Home) -> None:
    publish(own_home, **EARLIER)
    publish(own_home, with_late_rows())
    apps, research = (render(read(own_home, Edition(team))).text for team in ("apps", "research"))
    assert "2.00 USD → 4.00 USD" in apps
    assert "EARLIER DAYS" not in research


def test_the_last_mail_of_the_edition_is_what_it_is_compared_with(own_home: Home) -> None:
    """The version before this one holds the late rows already; the mail of the day before did not."""
    publish(own_home, version="v000005", through="2026-11-09 00:10")
    publish(own_home, with_late_rows(), **EARLIER)
    publish(own_home, with_late_rows())
    assert read(own_home, Edition()).restated is None
    mailed(own_home, "2026-11-08", "v000005", SENDING)
    assert "Since the mail of 2026-11-08, made of v000005, figures of 2026-11-08" in render(read(own_home, Edition())).text
    mailed(own_home, "2026-11-08", "v000005", REFUSED)
    assert read(own_home, Edition()).restated is None
    mailed(own_home, "2026-11-08", "v000005")
    # another edition's mail, and the day's own, are none to compare with
    mailed(own_home, "2026-11-09", "v000006")
    found = read(own_home, Edition()).restated
    assert found is not None
    assert found.publication_id == "v000005"
    assert read(own_home, Edition("apps")).restated is None


def test_a_version_that_has_expired_is_said_to_have(own_home: Home) -> None:
    publish(own_home)
    mailed(own_home, "2026-11-08", "v000003")
    text = " ".join(render(read(own_home, Edition())).text.split())
    assert (
        "Which earlier days moved since the mail of 2026-11-08, made of v000003, cannot be told: that version has expired."
        in text
    )


def test_a_comparison_that_fails_keeps_nobody_from_the_mail(own_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise duckdb.BinderException("no such column")

    publish(own_home, **EARLIER)
    publish(own_home)
    monkeypatch.setattr(restated, "compare", fail)
    text = " ".join(render(read(own_home, Edition())).text.split())
    assert "cannot be told: the two versions cannot be compared; `python -m warehouse diff v000006` says why." in text


def test_the_version_of_the_last_mail_does_not_expire(own_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1, 9):
        publish(own_home, version=f"v{number:06d}")
    monkeypatch.setattr(publications.Version, "manifest", type("M", (), {"published_at": "2026-11-10T00:40:00"}))
    mailed(own_home, "2026-11-07", "v000001")
    mailed(own_home, "2026-11-08", "v000002")
    expired = publications.expire(own_home.published, needed=records.versions_in_mails(own_home))
    assert expired == ["v000001", "v000003", "v000004", "v000005"]


def test_a_name_that_came_as_data_stays_a_name(own_home: Home) -> None:
    workloads = [*WORKLOADS, (NAME, "a", NAME, NAME)]
    publish(own_home, with_late_rows(NAME), workloads, **EARLIER)
    publish(own_home, with_late_rows(NAME, 2.0), workloads, coverage=COVERAGE)
    for edition in (Edition(), Edition(NAME)):
        digest = render(read(own_home, edition))
        assert "EARLIER DAYS THAT MOVED" in digest.text
        assert "<script>" not in digest.html
        assert not [line for line in digest.text.splitlines() if line.startswith("Bcc:")]


def test_two_mailings_in_one_process_see_a_version_that_was_written_anew(own_home: Home) -> None:
    publish(own_home, **EARLIER)
    publish(own_home, with_late_rows())
    assert read(own_home, Edition()).restated is not None
    shutil.rmtree(own_home.published / "v000007")
    publish(own_home)
    assert read(own_home, Edition()).restated is None
