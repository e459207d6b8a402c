"""The bills' lines, each in one role."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import WARNING, Table, finite, has_columns, key, no_rows, no_rows_where, not_null, one_of

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation

LINE_ROLES = ("capacity", "commitment_unused", "commitment_purchase", "tax", "support", "credit", "other", "out_of_scope")


def expectations(table: Table) -> list[Expectation]:
    rounded = """
        select provider_name, billing_account_id, count(*) as line_count
        from {batch}
        where effective_cost_method = 'rounded' and line_role in ('capacity', 'commitment_unused')
        group by provider_name, billing_account_id order by provider_name, billing_account_id"""
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
        no_rows(
            "effective_costs_are_not_rounded",
            rounded,
            "A bill has effective costs in whole units of money, and no unit price to work them out again from: costs per hour "
            "and per token rest on rounded amounts; ask for an export with EffectiveCost unrounded or with unit prices.",
            WARNING,
        ),
    ]
