"""The closed list of states."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, finite, has_columns, key, no_rows, no_rows_where, not_null
from warehouse.sql import compose, joined, literal, literals

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation

#: semantics.md, section 5, in the order of its rules; the last is money without hours
GHOST_STATES = (
    *("unallocated", "suspended", "overprovisioned", "unbalanced", "pipeline_waiting", "reserved_memory", "idle_compute"),
    *("throttled", "oversized", "underfilled", "commitment_unused"),
)
STATES = (*GHOST_STATES, "out_of_service", "borrowed", "unobserved", "productive")
STATES_SQL = joined(", ", (compose("({state})", state=literal(state)) for state in STATES))
GHOSTS_SQL = literals(GHOST_STATES)


def expectations(table: Table) -> list[Expectation]:
    return [
        has_columns("state", "state_order", "is_ghost", "label", "definition"),
        *key("state"),
        not_null("state_order", "is_ghost", "label", "definition"),
        no_rows(
            "order_is_unique",
            "select state_order from {batch} group by state_order having count(*) > 1",
            "Two states have the same place, so that the waterfall has no order.",
        ),
        no_rows(
            "every_state_is_there",
            f"select state from (values {STATES_SQL}) as needed (state) anti join {{batch}} as own on own.state = needed.state",
            "A state of the design is missing from dim_states.",
        ),
        no_rows_where(
            "ghosts_as_designed",
            f"is_ghost <> (state in ({GHOSTS_SQL}))",
            "A state is ghost that the design does not count as one, or the other way round.",
        ),
        *finite(table),
    ]
