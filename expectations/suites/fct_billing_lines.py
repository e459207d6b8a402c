"""The bills' lines, each in one role."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, finite, has_columns, key, no_rows_where, not_null, one_of

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation

LINE_ROLES = ("capacity", "commitment_unused", "commitment_purchase", "tax", "support", "credit", "other", "out_of_scope")


def expectations(table: Table) -> list[Expectation]:
    return [
        has_columns(
            *("line_id", "line_role", "provider_name", "billing_account_id", "billed_cost", "effective_cost", "billing_currency"),
            *("charge_category", "charge_period_start", "charge_period_end", "delivery_id"),
        ),
        *key("line_id"),
        not_null(
            "line_role",
            "provider_name",
            "billing_account_id",
            "billed_cost",
            "effective_cost",
            "billing_currency",
            "charge_period_start",
            "charge_period_end",
        ),
        *finite(table),
        one_of("line_role", LINE_ROLES),
        no_rows_where(
            "charge_period_has_a_length",
            "charge_period_end <= charge_period_start",
            "A charge period is empty or ends before it starts: its money has no hour to go to.",
        ),
    ]
