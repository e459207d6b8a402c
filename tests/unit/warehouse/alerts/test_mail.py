"""An alert mail: text and HTML that say the same, and names in both that are names and nothing else."""

from __future__ import annotations

import re
from email import message_from_bytes, policy
from email.headerregistry import Address
from html.parser import HTMLParser

import pytest

from tests.unit.warehouse.alerts.watched_fleet import NOW
from tests.unit.warehouse.digest.test_mail import HOSTILE
from warehouse.alerts.messages import MOST_EVENTS, News, compose
from warehouse.alerts.records import BEGUN, OVER, Event

SENDER = Address("GPU Net", addr_spec="gpu-net@example.com")


def event(rule: str = "ghosts", says: str = "Ghost capacity cost 16.00 USD.", **more: object) -> Event:
    plain: dict[str, object] = {
        **{"kind": "ghost_money", "subject": "the fleet", "period": "2026-11-09", "value": 16.0, "limit": 10.0},
        **{"unit": "currency", "currency": "USD", "team": None, "publication_id": "v000007"},
        **{"since": "2026-11-10T13:00:00Z", "seen_at": "2026-11-10T13:00:00Z"},
    }
    return Event(rule=rule, says=says, **{**plain, **more})  # type: ignore[arg-type]


def parts_of(news: list[News]) -> tuple[str, str]:
    """Text and HTML as they arrive."""
    mail = message_from_bytes(bytes(compose(news, SENDER, "a@example.com", NOW)), policy=policy.default)
    assert mail.get_content_type() == "multipart/alternative"
    assert [part.get_content_type() for part in mail.iter_parts()] == ["text/plain", "text/html"]
    text, html = (part.get_content() for part in mail.iter_parts())
    return text, html


class _Page(HTMLParser):
    """Elements, attributes, and the words of a page; every element is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.words = ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes += attrs
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.words += data


def test_both_parts_say_what_begins_and_what_is_over() -> None:
    ended = event("silence", "dcgm has landed nothing for 30 hours.", ended_at="2026-11-10T14:30:00Z")
    text, html = parts_of([News(event(), BEGUN), News(ended, OVER)])
    page = _Page(html)
    for said in (text, " ".join(page.words.split())):
        assert "ghosts" in said
        assert "Ghost capacity cost 16.00 USD." in said
        assert "dcgm has landed nothing for 30 hours." in said
        assert "since 2026-11-10 14:30 UTC" in said
        assert "Figures of publication v000007." in said
    words = " ".join(page.words.split())
    assert words.index("What fires") < words.index("Ghost capacity cost 16.00 USD.", words.index("What fires"))
    assert words.index("What is over") < words.index("over silence")
    assert "fires ghosts · since 2026-11-10 13:00 UTC" in words


def test_the_style_is_in_the_elements_and_nothing_is_loaded_or_leads_anywhere() -> None:
    _, html = parts_of([News(event(), BEGUN)])
    page = _Page(html)
    names = {name for name, _ in page.attributes}
    assert "style" in names
    assert not names & {"href", "src", "background", "action"}
    assert not re.search(r"https?:|url\(|@import|<link|<script|<img", html)
    assert "prefers-color-scheme: dark" in html


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("what", [BEGUN, OVER])
def test_a_name_is_text_in_both_parts(hostile: str, what: str) -> None:
    named = event(hostile, f"Ghost capacity of team {hostile} cost 16.00 USD.", ended_at="2026-11-10T14:30:00Z")
    text, html = parts_of([News(named, what)])
    page = _Page(html)
    plain = _Page(parts_of([News(event(ended_at="2026-11-10T14:30:00Z"), what)])[1])
    assert page.elements == plain.elements
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert len(html) < 20_000
    for said in (text, page.words):
        assert not re.search("[\u202e\u200f\x00\x07\x1b]", said)
        assert "x" * 800 not in said
        assert "Ghost capacity of team" in said


def test_both_parts_count_what_they_leave_out() -> None:
    text, html = parts_of([News(event(f"rule {n:02}"), BEGUN) for n in range(MOST_EVENTS + 3)])
    for said in (text, html):
        assert f"rule {MOST_EVENTS - 1:02}" in said
        assert f"rule {MOST_EVENTS:02}" not in said
        assert "and 3 more: python -m warehouse alerts" in said
