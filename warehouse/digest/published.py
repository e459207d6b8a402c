"""What is published, which day of it is whole, and whether the gate holds a newer build; mail and alerts ask the same."""

from __future__ import annotations

from datetime import date, timedelta

import duckdb

from warehouse.digest.figures import Hold, Publication
from warehouse.digest.words import clean
from warehouse.home import Home
from warehouse.verdict import HOLD, read_verdict

#: failed checks that a mail names
MOST_FAILURES = 3


class NothingPublishedError(Exception):
    """There is no publication, or none that covers a whole day; the message says what to do."""


class HeldFromTheStartError(NothingPublishedError):
    """Nothing was ever published because the gate holds the only build; the message says why."""


def read_hold(home: Home) -> Hold | None:
    """What the gate last said, if it was no."""
    verdict = read_verdict(home)
    if verdict is None or verdict.verdict != HOLD:
        return None
    failed = [f"{check.table}: {check.message}" for check in verdict.checks if not check.success and check.severity == "critical"]
    shown = [clean(failure, 300) for failure in failed[:MOST_FAILURES]]
    if len(failed) > MOST_FAILURES:
        shown.append(f"and {len(failed) - MOST_FAILURES} more; `python -m warehouse publish` names them all")
    return Hold(verdict.build_id, verdict.checked_at, shown or ["the verdict names no check; run `python -m expectations` again"])


def read_publication(connection: duckdb.DuckDBPyConnection) -> Publication:
    row = connection.execute(
        "select publication_id, build_id, published_at, data_through_at, checks_passed from publication"
    ).fetchone()
    assert row is not None, "publishing verifies that there is one row"
    return Publication(*row)


def last_whole_day(connection: duckdb.DuckDBPyConnection, publication: Publication) -> date:
    """The last day that the publication covers to its end; raises NothingPublishedError, whose message says what to do."""
    row = connection.execute("select min(usage_date), max(usage_date) from mart_ghost_capacity_daily").fetchone()
    first, last = row or (None, None)
    if last is None:
        raise NothingPublishedError(
            f"{publication.publication_id} holds no GPU's time yet: land an inventory or a scheduler's accounting, "
            "then `python -m warehouse run`"
        )
    if publication.data_through_at is not None:
        last = min(last, (publication.data_through_at - timedelta(days=1)).date())
    if last < first:
        raise NothingPublishedError(
            f"no whole day is published yet: the first, {first}, is covered through {publication.data_through_at:%H:%M} UTC; "
            f"its digest can be made when it is over, and `--date {first}` shows what there is"
        )
    assert isinstance(last, date)
    return last
