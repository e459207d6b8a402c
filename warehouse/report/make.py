"""The report of an open published database: what the mail says of the last whole day, and the numbers to click through."""

from __future__ import annotations

from datetime import date

import duckdb

from warehouse.digest.editions import Edition
from warehouse.digest.figures import Figures
from warehouse.digest.published import NothingPublishedError, read_publication
from warehouse.digest.reading import read_published
from warehouse.home import Home
from warehouse.report.alerting import read_alerts
from warehouse.report.contents import read_contents
from warehouse.report.moved import NOTHING_BEFORE, Moved
from warehouse.report.page import Report
from warehouse.report.tables import read_tables


def make_report(connection: duckdb.DuckDBPyConnection, home: Home | None = None, moved: Moved | None = None) -> Report:
    """Everything that is on the page; a database without any GPU's time gives one that says so.

    `home` is where the alert rules are, `moved` the comparison with the version before.
    """
    publication = read_publication(connection)
    last_day: Figures | None = None
    why_no_day = ""
    try:
        last_day = read_published(connection, Edition())
    except NothingPublishedError as error:
        why_no_day = str(error)
    first, last = _span(connection, publication.published_at.date())
    contents = read_contents(connection, first, last)
    contents["last_whole_day"] = ((last_day.usage_date if last_day else last) - first).days
    alerts = read_alerts(home, connection, publication.published_at)
    return Report(publication, contents, read_tables(connection), alerts, moved or NOTHING_BEFORE, last_day, why_no_day)


def _span(connection: duckdb.DuckDBPyConnection, otherwise: date) -> tuple[date, date]:
    """The first and the last day that any GPU's time is known of; `otherwise` where there is none."""
    row = connection.execute("select min(usage_date), max(usage_date) from mart_ghost_capacity_daily").fetchone()
    first, last = row or (None, None)
    return first or otherwise, last or otherwise
