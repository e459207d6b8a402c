"""The mail as a browser shows it: nothing wider than a phone, in light and dark, hostile names included.

The pictures stay in the test's folder (`pytest --basetemp=FOLDER` keeps them where one can look at them).
"""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from tests.unit.warehouse.digest.small_fleet import COVERAGE, DAY, DAY_BEFORE, ECONOMICS, LEDGER, WORKLOADS, hold, publish
from warehouse.digest.editions import Edition
from warehouse.digest.reading import read
from warehouse.digest.render import render
from warehouse.home import Home

pytestmark = pytest.mark.integration

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PHONE, DESKTOP = 375, 1000
#: blink's numbers for what a user prefers
SCHEMES = {"dark": 0, "light": 1}
HEIGHT = 5200
#: a page around the mail that knows how wide it became
FRAME = """<!DOCTYPE html><body style="margin:0"><iframe style="border:0;width:{width}px;height:{height}px" srcdoc="{mail}"
onload="document.body.dataset.width = this.contentDocument.documentElement.scrollWidth"></iframe></body>"""

UNBROKEN = "x" * 500
NASTY = [
    (DAY, "b", "w0", "idle_compute", "", "billing", "EUR", 200_000.0, "123456789.12"),
    (DAY, "b", "w1", "pipeline_waiting", "stall", "unpriced", "unknown", 150_000.0, None),
    (DAY_BEFORE, "b", "w1", "productive", "", "billing", "EUR", 99_999.0, "9999999"),
    (DAY_BEFORE, "b", UNBROKEN, "idle_compute", "", "billing", "EUR", 99_999.0, "12345678.12"),
    (DAY, "b", "w2", "unallocated", "stranded", "billing", "JPY", 1000.0, "123456789"),
]
NAMES = [
    (UNBROKEN, "b", UNBROKEN, UNBROKEN),
    ("w0", "b", UNBROKEN, UNBROKEN),
    ("w1", "b" * 90, "<script>alert(1)</script>", "א" * 80),
    ("w2", "b", "name " * 50, "t"),
]


@pytest.fixture
def mail(home: Path) -> str:
    """The fleet's edition with everything in it that could make a page wide."""
    own_home = Home.from_environment().create()
    economics = [*ECONOMICS, (DAY, "w0", UNBROKEN, "EUR", 10**15, 10**15, 10**12, "123456.5", "98765.4", None)]
    coverage = [*COVERAGE, (DAY, UNBROKEN, UNBROKEN, 1.0, 0.5, 10**12, 10**9, "2026-11-10 00:00")]
    publish(own_home, LEDGER, [*WORKLOADS, *NAMES], version="v000006", through="2026-11-09 00:10")
    publish(own_home, [*LEDGER, *NASTY], [*WORKLOADS, *NAMES], economics=economics, coverage=coverage, warnings=["w " * 300])
    hold(own_home, datetime(2026, 11, 11, 13, 0), message=UNBROKEN)
    figures = read(own_home, Edition())
    assert figures.restated, "days that moved are part of what could make a page wide"
    return render(replace(figures, alerts=[f"{UNBROKEN}: {UNBROKEN}"])).html_alone


@pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine's PATH (Debian: apt-get install chromium)")
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_the_mail_is_as_wide_as_the_screen_in_the_colours_the_reader_prefers(
    mail: str, tmp_path: Path, width: int, scheme: str
) -> None:
    from PIL import Image

    frame = tmp_path / "frame.html"
    frame.write_text(FRAME.format(width=width, height=HEIGHT, mail=html.escape(mail)))
    picture = tmp_path / f"{width}-{scheme}.png"
    dom = _browse(frame, tmp_path, scheme, "--dump-dom")
    found = re.search(r'data-width="(\d+)"', dom)
    assert found, dom[-500:]
    assert int(found[1]) <= width
    _browse(frame, tmp_path, scheme, f"--screenshot={picture}", f"--window-size={max(width, 500)},{HEIGHT}")
    red, green, blue = Image.open(picture).convert("RGB").getpixel((3, 3))  # type: ignore[misc]
    assert (max(red, green, blue) < 64) == (scheme == "dark")
    assert (min(red, green, blue) > 192) == (scheme == "light")


def _browse(page: Path, folder: Path, scheme: str, *arguments: str) -> str:
    assert BROWSER is not None
    done = subprocess.run(
        [
            BROWSER,
            *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
            *("--virtual-time-budget=10000", f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}"),
            f"--user-data-dir={folder / 'profile'}",
            *arguments,
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return done.stdout
