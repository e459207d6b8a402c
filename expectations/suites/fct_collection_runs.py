"""What collectors landed, and what they left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import WARNING, Table, at_least_zero, finite, has_columns, key, no_rows, not_null

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    still_failing = """
        select source, cluster from {batch} group by source, cluster
        having arg_max(status, landed_at) = 'failed'"""
    much_quarantined = """
        select collection_run_id from {batch}
        where landed_at > (select max(landed_at) from {batch}) - interval 1 day
            and rows_quarantined > 0.05 * (rows_landed + rows_quarantined)"""
    return [
        has_columns("collection_run_id", "source", "cluster", "rows_landed", "rows_quarantined", "landed_at", "status"),
        *key("collection_run_id"),
        not_null("source", "cluster", "landed_at"),
        *finite(table),
        at_least_zero("rows_landed", "rows_quarantined"),
        no_rows(
            "sources_can_be_read",
            still_failing,
            "The last collection of a source failed, so that its clusters grow old: `error` in fct_collection_runs says why.",
            WARNING,
        ),
        no_rows(
            "few_rows_quarantined",
            much_quarantined,
            "More than 5 % of a landing of the last day was quarantined: its files are in quarantine/, each row with a reason.",
            WARNING,
        ),
    ]
