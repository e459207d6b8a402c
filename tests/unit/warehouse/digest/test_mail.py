"""The mail itself: the marts' numbers, hostile names, sizes, and that nothing in it is loaded from anywhere."""

from __future__ import annotations

import re
from collections import Counter
from datetime import date, datetime
from email import message_from_bytes, policy
from email.headerregistry import Address
from html.parser import HTMLParser
from pathlib import Path

import duckdb
import pytest

from tests.unit.warehouse.digest.printed_numbers import unexplained
from tests.unit.warehouse.digest.small_fleet import DAY, LEDGER, WORKLOADS, publish
from warehouse.digest.editions import Edition
from warehouse.digest.message import compose, write_files
from warehouse.digest.reading import read
from warehouse.digest.render import Digest, render
from warehouse.home import Home

SENDER = Address("GPU Net", addr_spec="gpu-net@example.com")
HOSTILE = {
    "script": "<script>alert(1)</script>",
    "image": '"><img src=https://evil.example/x onerror=alert(1)>',
    "lines": "job\r\nBcc: all@example.com\r\n\r\n<b>hello</b>",
    "template": "{{ 7 * 7 }}{% raw %}",
    "direction": "safe\u202egpj.exe\u2066\u200f",
    "hebrew": "אימון גדול",
    "long": "x" * 10_000,
    "combined": "e" + "\u0301" * 5000,
    "nulls": "a\x00b\x1b[31m\x07",
    "mathtext": r"$\frac{1}{0}$",
    "half": "\ud83d".encode("utf-16", "surrogatepass").decode("utf-16", "replace"),
}


@pytest.fixture
def own_home(home: Path) -> Home:
    return Home.from_environment().create()


@pytest.fixture
def hostile(own_home: Home) -> Digest:
    """Every name in the fleet's edition is hostile: workload, team, cluster, model, source, currency."""
    workloads = [("unallocated", "unallocated", "unallocated", "unallocated")]
    ledger = []
    for number, name in enumerate(HOSTILE.values()):
        workloads.append((f"w{number}", name, name, name))
        ledger.append((DAY, name, f"w{number}", "idle_compute", "", "billing", f"{name[:40]}$", 1.0 + number, "3"))
    economics = [(DAY, f"w{n}", name, name, 10, 10, 1, "1.5", "2", None) for n, name in enumerate(HOSTILE.values())]
    coverage = [(DAY, name, name, 1.0, 1.0, 10, 0, None) for name in HOSTILE.values()]
    publish(own_home, ledger, workloads, [], economics, coverage)
    return render(read(own_home, Edition()))


class _Page(HTMLParser):
    """Which elements and attributes a page has, and whether every element is closed."""

    VOID = frozenset({"meta", "br", "img"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: Counter[str] = Counter()
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_every_number_in_the_mail_is_one_of_the_marts(own_home: Home) -> None:
    path = publish(own_home)
    for edition in (Edition(), Edition("apps"), Edition("research")):
        for day in (date(2026, 11, 9), date(2026, 11, 8)):
            digest = render(read(own_home, edition, day))
            assert unexplained(f"{digest.subject}\n{digest.text}", path, day, edition.team) == []


def test_a_mart_that_says_something_else_would_be_noticed(own_home: Home) -> None:
    digest = render(read(own_home, Edition())) if publish(own_home) else None
    assert digest is not None
    with duckdb.connect(str(own_home.published_database)) as connection:
        connection.execute("update fct_gpu_ledger_hourly set gpu_hours = 0.7 where state = 'pipeline_waiting'")
        connection.execute("update mart_ghost_capacity_daily set gpu_hours = 0.7 where state = 'pipeline_waiting'")
    assert "0.5" in unexplained(digest.text, own_home.published_database, date(2026, 11, 9))


def test_html_and_text_print_the_same_numbers(own_home: Home) -> None:
    publish(own_home)
    digest = render(read(own_home, Edition()))
    html = re.sub(r"<style>.*?</style>|<[^>]+>", " ", digest.html, flags=re.DOTALL)
    alternatives = " ".join(re.findall(r'alt="([^"]*)"', digest.html))
    figure = re.compile(r"\d[\d,.]*\d%?(?= (?:USD|GPU-hours)|%)")
    assert set(figure.findall(digest.text)) <= set(figure.findall(html + " " + alternatives))


def test_hostile_names_are_text(hostile: Digest) -> None:
    page = _Page(hostile.html)
    assert page.open == []
    assert set(page.elements) <= {
        *("html", "head", "meta", "title", "style", "body", "div", "table", "tbody", "tr", "td"),
        *("h1", "h2", "p", "span", "bdi", "br", "img"),
    }
    assert page.elements["img"] == len(hostile.pictures)
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert "&lt;script&gt;alert(1)" in hostile.html
    assert "{{ 7 * 7 }}" in hostile.html


def test_a_name_cannot_turn_the_line_around_or_grow_without_end(hostile: Digest) -> None:
    for text in (hostile.text, hostile.html, hostile.subject):
        assert not re.search("[\u200e\u200f\u202a-\u202e\u2066\u2067\x00-\x08\x0b-\x1f\x7f]", text.replace("\r\n", "\n"))
    assert "\u2068אימון גדול\u2069" in hostile.text
    assert "<bdi>אימון גדול</bdi>" in hostile.html
    assert max(map(len, re.findall(r"x+", hostile.html))) < 60
    assert len(hostile.html.encode()) < 100_000


def test_nothing_in_a_mail_is_loaded_from_anywhere_and_nothing_runs(hostile: Digest) -> None:
    page = _Page(hostile.html)
    links = [value or "" for name, value in page.attributes if name in ("src", "href", "background", "srcset", "action")]
    assert links
    assert all(link.startswith("cid:") for link in links)
    styles = " ".join(value or "" for name, value in page.attributes if name == "style") + hostile.html.split("</head>")[0]
    assert "url(" not in styles
    assert "@import" not in styles


def test_no_name_becomes_a_header(own_home: Home) -> None:
    name = "red\r\nBcc: all@example.com\r\n\r\nbody"
    publish(
        own_home, [(DAY, "a", "w", "idle_compute", "", "billing", "US\r\nBcc: x@example.com", 1.0, "3")], [("w", "a", "w", name)]
    )
    digest = render(read(own_home, Edition(name)))
    message = compose(digest, SENDER, "you@example.com", "<1@example.com>", datetime(2026, 11, 10))
    parsed = message_from_bytes(bytes(message), policy=policy.default)
    assert sorted(parsed.keys()) == sorted(
        ["Subject", "From", "To", "Date", "Message-ID", "Auto-Submitted", "MIME-Version", "Content-Type"]
    )
    assert parsed["Subject"].startswith("team red Bcc: all@example.com body: productive 0.0%")


def test_the_mail_is_ascii_with_text_html_and_its_pictures_inside(own_home: Home) -> None:
    publish(own_home)
    digest = render(read(own_home, Edition()))
    raw = bytes(compose(digest, SENDER, "you@example.com", "<1@example.com>", datetime(2026, 11, 10)))
    assert raw.isascii()
    assert max(map(len, raw.split(b"\r\n"))) <= 998
    message = message_from_bytes(raw, policy=policy.default)
    assert message["Date"].datetime == datetime.fromisoformat("2026-11-10T00:00:00Z")
    text, html = message.get_body(("plain",)), message.get_body(("html",))
    assert text is not None
    assert html is not None
    assert text.get_content().replace("\r\n", "\n") == digest.text
    pictures = {part["Content-ID"]: part for part in message.walk() if part.get_content_maintype() == "image"}
    assert set(re.findall(r'src="cid:(\w+)"', html.get_content())) == {name.strip("<>") for name in pictures}
    assert all(part.get_content_disposition() == "inline" for part in pictures.values())


def test_a_picture_says_in_words_what_it_shows(own_home: Home) -> None:
    publish(own_home)
    html = render(read(own_home, Edition())).html
    assert (
        'alt="Capacity 10.0 GPU-hours, 27.00 USD, of which: Out of service 1.0 GPU-hours, 2.00 USD; Unallocated 3.0 GPU-hours, '
        "6.00 USD; Pipeline waiting 0.5 GPU-hours, 1.00 USD; Reserved memory 1.0 GPU-hours, 2.00 USD; Productive 4.5 GPU-hours, "
        '9.00 USD; Unused commitment 7.00 USD."'
    ) in html


def test_the_same_figures_are_the_same_bytes(own_home: Home) -> None:
    publish(own_home)
    first, second = (render(read(own_home, Edition())) for _ in range(2))
    assert first == second


def test_a_thousand_gpus_with_names_of_ten_thousand_letters_fit_into_a_mail(own_home: Home) -> None:
    workloads = [WORKLOADS[0], *((f"w{n}", f"c{n % 40}", f"{n}-" + "ü" * 10_000, f"team {n % 50}") for n in range(1000))]
    ledger = [
        (day, f"c{n % 40}", f"w{n}", state, "", "billing", "USD", 1.0 + n / 1000 + (day == DAY), f"{n}")
        for n in range(1000)
        for state in ("idle_compute", "reserved_memory", "productive")
        for day in ("2026-11-08", DAY)
    ]
    economics = [(DAY, f"w{n}", "m" * 10_000, "USD", 10, 10, 1, "1.5", "2", None) for n in range(0, 1000, 10)]
    coverage = [(DAY, f"c{n}", source, 10.0, 9.0, 100, 1, None) for n in range(40) for source in ("dcgm", "slurm", "nvml")]
    path = publish(own_home, ledger, workloads, [], economics, coverage)
    digest = render(read(own_home, Edition()))
    assert len(digest.html.encode()) < 100_000
    assert len(digest.text) < 20_000
    assert "by money, 10 of 2,000" in digest.text
    assert unexplained(digest.subject, path, date(2026, 11, 9)) == []


def test_files_to_look_at_need_no_mail_client(own_home: Home) -> None:
    publish(own_home)
    folder = own_home.digests / DAY
    written = list(write_files(render(read(own_home, Edition())), folder))
    assert {path.name for path in written} == {
        *("fleet.html", "fleet.txt", "fleet.eml", "fleet.trend.png", "fleet.waterfall.png"),
    }
    html = (folder / "fleet.html").read_text()
    assert "cid:" not in html
    assert html.count("data:image/png;base64,") == 2
    assert (folder / "fleet.waterfall.png").read_bytes().startswith(b"\x89PNG")


def test_editions_of_teams_with_like_names_are_different_files() -> None:
    names = {Edition(team).file_name for team in (None, "a/b", "a b", "../../a", "a-b", "A" * 5000)}
    assert len(names) == 6
    assert all(re.fullmatch(r"[A-Za-z0-9._-]{1,60}", name) for name in names)


def test_ledger_rows_of_the_fleet_are_what_the_readme_of_these_tests_says() -> None:
    assert sum(row[7] for row in LEDGER if row[0] == DAY) == 10.0
