"""What every published table and column means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import WARNING, Table, finite, has_columns, has_rows, no_rows

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    undescribed = """
        select columns.table_name, columns.column_name from duckdb_columns() as columns
        anti join {batch} as dictionary
            on columns.table_name = dictionary.table_name and columns.column_name = dictionary.column_name
                and coalesce(dictionary.description, '') <> ''
        where columns.schema_name = 'main' and regexp_matches(columns.table_name, '^(dim|fct|mart|audit)_')"""
    return [
        has_columns("table_name", "column_name", "description"),
        has_rows("The dictionary is empty, so that readers cannot look a column up."),
        *finite(table),
        no_rows(
            "every_column_described",
            undescribed,
            "A published column has no description: give it one in the model's YAML.",
            WARNING,
        ),
    ]
