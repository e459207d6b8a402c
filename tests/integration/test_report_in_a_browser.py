"""The report as a browser shows it: the mail's figures, nothing wider than a phone, light and dark, hostile names, no complaint.

The pictures stay in the test's folder (`pytest --basetemp=FOLDER` keeps them where one can look at them).
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.warehouse.digest.small_fleet import COVERAGE, DAY, ECONOMICS, LEDGER, WORKLOADS
from tests.unit.warehouse.report.reported_fleet import publish
from tests.unit.warehouse.report.test_report import HOSTILE
from warehouse.digest import page as pages
from warehouse.digest.editions import Edition
from warehouse.digest.reading import read
from warehouse.home import Home
from warehouse.report.write import write_report

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine's PATH (Debian: apt-get install chromium)"),
]

PHONE, DESKTOP = 375, 1200
#: blink's numbers for what a user prefers
SCHEMES = {"dark": 0, "light": 1}
HEIGHT = 6000
#: a page around the report that is as wide as a phone, which a browser's own window cannot be, and tells what it sees inside
FRAME = """<!DOCTYPE html><body style="margin:0">
<iframe style="border:0;width:{width}px;height:{height}px" src="{page}"></iframe>
<script>
setTimeout(() => {{
    const inside = document.querySelector('iframe').contentDocument, seen = document.body.dataset;
    const all = (what) => [...inside.querySelectorAll(what)];
    for (const name of {presses}) all('button').find((one) => one.innerText.trim() === name).click();
    seen.width = inside.documentElement.scrollWidth;
    seen.widest = all('*').filter((one) => one.getBoundingClientRect().right > {width})
        .map((one) => one.outerHTML.slice(0, 80)).slice(0, 5);
    seen.title = inside.title;
    seen.charts = all('[role=img]').filter((one) => one.querySelector('svg, canvas')).length;
    seen.labels = all('[role=img]').filter((one) => one.ariaLabel).length;
    seen.text = inside.body.innerText;
}}, 6000);
</script></body>"""


@pytest.fixture
def own_home(home: Path) -> Home:
    return Home.from_environment().create()


def nasty(own_home: Home) -> Path:
    """A report with everything in it that could make a page wide, or do worse."""
    names = [name.replace("\x00", "") for name in HOSTILE] + ["א" * 80, "name " * 50]
    money = "123456789.12"
    return publish(
        own_home,
        ledger=[
            *LEDGER,
            *((DAY, name, f"w{n}", "idle_compute", name, "billing", "EUR", 2e5 + n, money) for n, name in enumerate(names)),
        ],
        workloads=[*WORKLOADS, *((f"w{n}", name, name, name) for n, name in enumerate(names))],
        economics=[
            *ECONOMICS,
            *((DAY, f"w{n}", name, "EUR", 9**15, 9**15, 10**9, "12345", "98765.4", None) for n, name in enumerate(names)),
        ],
        coverage=[*COVERAGE, *((DAY, name, name, 1.0, 0.5, 10**12, 10**9, "2026-11-10 00:00") for name in names)],
        warnings=names,
    )


@pytest.mark.parametrize(("width", "scheme"), [(PHONE, "dark"), (DESKTOP, "light")])
def test_it_is_as_wide_as_the_screen_in_the_colours_the_reader_prefers(
    own_home: Home, tmp_path: Path, width: int, scheme: str
) -> None:
    from PIL import Image

    page = write_report(nasty(own_home))
    seen = look(page, tmp_path, width, scheme, "by=workload&measure=EUR")
    assert int(seen["width"]) <= width, seen["widest"]
    assert seen["title"] == "GPU Net report · v000007"
    assert int(seen["charts"]) == int(seen["labels"]) == 7
    picture = tmp_path / f"{width}-{scheme}.png"
    browse(tmp_path / "frame.html", tmp_path, scheme, f"--screenshot={picture}", f"--window-size={max(width, 500)},{HEIGHT}")
    red, green, blue = Image.open(picture).convert("RGB").getpixel((3, 3))  # type: ignore[misc]
    assert (max(red, green, blue) < 64) == (scheme == "dark")
    assert (min(red, green, blue) > 192) == (scheme == "light")


def test_the_last_day_reads_as_in_the_mail(own_home: Home, tmp_path: Path) -> None:
    blind = [
        (DAY, "a", "a/x/train", "unobserved", "gap", "rate_card", "USD", 0.75, "1.5"),
        (DAY, "a", "a/x/chat", "idle_compute", "", "unpriced", "unknown", 1234.5, None),
        (DAY, "a", "a/x/chat", "idle_compute", "", "billing", "EUR", 0.5, "1.25"),
    ]
    page = write_report(publish(own_home, ledger=[*LEDGER, *blind]))
    mail = pages.write(read(own_home, Edition()))
    seen = look(page, tmp_path, DESKTOP, "light", f"from={DAY}&to={DAY}")
    text = " ".join(seen["text"].split())
    assert mail.number in text
    for bar in mail.waterfall:
        hours = bar.hours.removesuffix(" GPU-hours")
        assert f"{bar.label} {f'{hours} ' if hours else ''}" in text, bar.label
        assert bar.money in text, bar.label
    for row in (*mail.ghosts, *mail.unit_costs):
        assert row.title in text
        for figure, _ in row.amounts[:1]:
            assert figure in text, figure
        assert row.advice in text


def test_a_link_leads_to_the_figures_it_was_made_of(own_home: Home, tmp_path: Path) -> None:
    page = write_report(publish(own_home))
    both = look(page, tmp_path, DESKTOP, "light", "from=2026-11-08&to=2026-11-09")["text"]
    one = look(page, tmp_path, DESKTOP, "light", "from=2026-11-08&to=2026-11-08&cluster=a&measure=USD")["text"]
    beyond = look(page, tmp_path, DESKTOP, "light", "from=1999-01-01&to=nonsense&cluster=<script>&by=x&measure=")["text"]
    assert "46.4%" in both, "6.5 of 14 GPU-hours in service"
    assert "40.0%" in one
    assert "cluster a" in one
    assert "2026-11-08 to 2026-11-09, all clusters" in beyond


def test_a_name_opens_what_is_inside_it(own_home: Home, tmp_path: Path) -> None:
    """Only buttons are pressed, which a keyboard reaches as well."""
    page = write_report(publish(own_home))
    seen = look(page, tmp_path, DESKTOP, "light", "", "last day", "by team", "apps", "chat", "Reserved memory")
    inside = " ".join(seen["text"].split("Choose a name to look inside it.")[1].split("Largest ghosts")[0].split())
    assert "team: apps ✕ workload: chat ✕ state: Reserved memory ✕" in inside
    assert inside.endswith("– 1.0 100.0% 2.00 USD"), inside
    assert "2026-11-09, of what is chosen above" in seen["text"]
    seen = look(page, tmp_path, DESKTOP, "light", "", "last day", "by team", "apps", "team: apps ✕", "fully loaded", "by team")
    assert "team: apps" not in seen["text"]
    assert "research" in seen["text"].split("Choose a name to look inside it.")[1].split("Largest ghosts")[0]


def test_the_chargeback_adds_up_to_the_whole_month_by_whoever_it_is_charged(own_home: Home, tmp_path: Path) -> None:
    page = write_report(publish(own_home))
    seen = {choice: look(page, tmp_path, DESKTOP, "light", "", f"by {choice}", "used") for choice in ("application", "model")}
    for choice, words in seen.items():
        charged = " ".join(words["text"].split("month of the table")[1].split("What moved")[0].split())
        assert f"2026-11, not closed yet, in USD {choice} GPU-hours allocated used fully loaded" in charged
        assert "Charged 9.0 18.00 13.00 18.00 held, and not productive 0.00 5.00 0.00 held by nobody 5.0 10.00" in charged
        assert "credits, and lines that are no GPU's time −1.50 −1.50 −1.50" in charged.replace("-", "−")
        assert charged.endswith("The whole month 15.0 35.50 35.50 35.50"), charged
    assert "app of chat 5.0 10.00 6.00 10.00" in " ".join(seen["application"]["text"].split())
    assert "llama 5.0 10.00 6.00 10.00" in " ".join(seen["model"]["text"].split())


def test_all_money_is_one_sum_in_the_reporting_currency(own_home: Home, tmp_path: Path) -> None:
    euro = (DAY, "a", "a/x/chat", "idle_compute", "", "billing", "EUR", 0.5, "10")
    page = write_report(publish(own_home, ledger=[*LEDGER, euro], rates={"USD": 1, "EUR": 1.25}, rates_from=DAY))
    days = f"from={DAY}&to={DAY}"
    apart = " ".join(look(page, tmp_path, DESKTOP, "light", days)["text"].split())
    assert "all money in USD" in apart, "it is offered"
    assert "10.00 EUR + 27.00 USD" in apart
    together = " ".join(look(page, tmp_path, DESKTOP, "light", f"{days}&measure=reporting")["text"].split())
    assert "money in USD at each day's rate" in together
    assert "39.50 USD cost of it" in together, "27 USD and 10 EUR at 1.25"
    # what the mail says of the last whole day stays as the mail says it
    assert (
        "EUR" not in together.split("Skip to the figures")[1].split("Where the prices come from")[0].split("GPU-hours went")[-1]
    )
    assert "The whole month 15.5" in together
    both = look(page, tmp_path, DESKTOP, "light", "from=2026-11-08&measure=reporting")["text"]
    assert "39.50 USD + ?" in both, "the day before has no rate"
    assert "? where a day has none" in both
    assert "held, and not productive 0.00 12.50 + ? 0.00" in " ".join(both.split()), "a month with such a day is told as well"
    assert "all money in" not in look(write_report(publish(own_home)), tmp_path, DESKTOP, "light", "measure=reporting")["text"]


def look(page: Path, folder: Path, width: int, scheme: str, address: str, *presses: str) -> dict[str, str]:
    """Open the report at `address` in a frame of this width and press buttons; what is to be seen then.

    A complaint of the browser fails.
    """
    frame = folder / "frame.html"
    frame.write_text(
        FRAME.format(width=width, height=HEIGHT, page=html.escape(f"{page.as_uri()}#{address}"), presses=json.dumps(presses))
    )
    dom, complaints = browse(frame, folder, scheme, "--dump-dom", "--enable-logging=stderr", "--log-level=0")
    assert not re.search(r"Refused to|Uncaught|TypeError|ReferenceError|violates", complaints), complaints[-2000:]
    found = {name: html.unescape(value) for name, value in re.findall(r'data-(\w+)="([^"]*)"', dom.split("<iframe")[0])}
    assert found, dom[:500]
    return found


def browse(page: Path, folder: Path, scheme: str, *arguments: str) -> tuple[str, str]:
    assert BROWSER is not None
    done = subprocess.run(
        [
            BROWSER,
            *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
            *("--allow-file-access-from-files", "--virtual-time-budget=12000"),
            *(f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}", f"--user-data-dir={folder / 'profile'}"),
            *arguments,
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return done.stdout, done.stderr
