"""What every audit promises: a sum that was measured again holds, day by day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, finite, has_columns, no_rows_where, not_null

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


#: what is wrong where a day has no row in an audit
NOT_AUDITED = "A day of the ledger was not audited, so that nobody knows whether it keeps this promise: build that day again."

#: what a failure means where an audit does not say it better itself
FAILURE = "An audit does not hold: hours or money were lost or counted twice. Its rows name the day and the difference."


def expectations(table: Table, failure: str = FAILURE) -> list[Expectation]:
    return [
        has_columns("usage_date", "promised", "measured", "difference", "holds"),
        not_null("usage_date"),
        no_rows_where("holds", "holds is distinct from true", failure),
        *finite(table),
    ]
