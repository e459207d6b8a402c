"""Write `report.html` into a version's folder, from the version's own file, before readers see either.

The report is a view of the published tables and never their condition: where it cannot be made, the version is published
all the same, and a page that says so stands in its place, so that nobody takes an older report for this version's.
"""

from __future__ import annotations

import html
import logging
from pathlib import Path

from warehouse.database import connect
from warehouse.home import Home
from warehouse.publication.publications import REPORT

logger = logging.getLogger(__name__)

_FAILED = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>GPU Net: no report</title></head>
<body style="font-family:system-ui,sans-serif;margin:2rem;max-width:40rem">
<h1>This version has no report</h1>
<p>The tables beside this page are whole and were let through by the gate; only the page about them could not be made:</p>
<p style="overflow-wrap:anywhere">{reason}</p>
<p>The next publication makes it again; <code>python -m warehouse publish --force</code> does so now.</p>
</body></html>
"""


def write_report(database: Path, home: Home | None = None, before: Path | None = None) -> Path:
    """Make the report of a published database and write it beside it; its path.

    `home` is where the alert rules are; `before` the database of the version that readers saw until now, where there is one.
    """
    # Jinja and the page's parts are loaded where they work
    from warehouse.report.make import make_report
    from warehouse.report.moved import read_moved
    from warehouse.report.page import render

    moved = read_moved(before, database)
    with connect(database, read_only=True) as connection:
        text = render(make_report(connection, home, moved))
    path = database.with_name(REPORT)
    path.write_text(text, encoding="utf-8")
    return path


def try_to_write_report(database: Path, home: Home | None = None, before: Path | None = None) -> bool:
    """Write the report, or a page that says why there is none; whether it is the report. Raises nothing."""
    path = database.with_name(REPORT)
    try:
        write_report(database, home, before)
    except Exception as error:
        logger.warning("published without a report: %s: %s", type(error).__name__, error)
        reason = html.escape(f"{type(error).__name__}: {error}"[:2000])
        # where not even that can be written, no page is better than half of one
        try:
            path.write_text(_FAILED.format(reason=reason), encoding="utf-8")
        except OSError:
            path.unlink(missing_ok=True)
        return False
    return True
