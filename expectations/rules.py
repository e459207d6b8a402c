"""The sentences that suites are written in: each makes expectations that carry severity and what a failure means.

`critical` holds publication, `warning` lets it through with a note. Great Expectations takes seconds to load, so that it is
imported by the functions that make one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation

CRITICAL, WARNING = "critical", "warning"

#: room for the rounding of doubles: a millionth of an hour is 3.6 ms
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Table:
    """A published table as the build has it: `columns` maps name to DuckDB type."""

    name: str
    columns: Mapping[str, str]


@dataclass(frozen=True)
class History:
    """What a rule that compares with earlier days needs: `query` counts the days there are, `needs` is how many it takes.

    With fewer the rule has nothing to compare with and passes; what is observed then says how many there are.
    """

    query: str
    needs: int


def _carried(check_id: str, severity: str, failure: str, **meta: Any) -> dict[str, Any]:
    return {"severity": severity, "notes": failure, "meta": {"check_id": check_id, **meta}}


def has_columns(*columns: str) -> Expectation:
    """The columns that `interfaces.md` promises are there; others may be."""
    from expectations.engine import ExpectTableColumnsToMatchSet

    failure = "A promised column is gone, and whoever reads it breaks: bring it back, or rename it with a CHANGELOG entry."
    return ExpectTableColumnsToMatchSet(
        column_set=list(columns), exact_match=False, **_carried("promised_columns", CRITICAL, failure)
    )


def not_null(*columns: str) -> Expectation:
    """Each of the columns has a value in every row.

    One rule for all of them, as in `between`: Great Expectations takes some 20 ms per rule before it asks anything.
    """
    condition = " or ".join(f"{column} is null" for column in columns)
    failure = (
        f"One of {', '.join(columns)} is missing in a row: ids are `unallocated` or `unknown`, never null; look at the model."
    )
    return no_rows_where("no_nulls", condition, failure)


def key(*columns: str) -> list[Expectation]:
    """The columns identify a row: none is null, and no two rows are equal in all of them.

    Keys are compared by hash first, and only those whose hash repeats in full, so that memory does not grow with their width.
    """
    names = ", ".join(columns)
    has_null = " or ".join(f"{column} is null" for column in columns)
    repeated = f"""
        select {names} from {{batch}}
        where hash({names}) in (select hash({names}) from {{batch}} group by all having count(*) > 1)
        group by all having count(*) > 1"""
    return [
        no_rows_where("key_not_null", has_null, f"One of {names} is null, so that the row cannot be found by its key."),
        no_rows(
            "key_unique",
            repeated,
            f"Two rows have the same {names}, so that every sum counts them twice: look for a join that multiplies rows.",
            key=columns,
        ),
    ]


def no_rows(
    check_id: str,
    query: str,
    failure: str,
    severity: str = CRITICAL,
    *,
    history: History | None = None,
    key: Sequence[str] = (),
) -> Expectation:
    """A query that finds the rows that break a promise; `{batch}` in it is the suite's table.

    In a query with a join give `{batch}` a name (`{batch} as own`); in one without, GX has given it one already. `key` are the
    columns that tell the table's rows apart, where the rule says them.
    """
    from expectations.engine import ExpectNoRows

    meta: dict[str, Any] = {"key": list(key)} if key else {}
    if history:
        meta["history"] = {"query": " ".join(history.query.split()), "needs": history.needs}
    return ExpectNoRows(unexpected_rows_query=" ".join(query.split()), **_carried(check_id, severity, failure, **meta))


def no_rows_where(check_id: str, condition: str, failure: str, severity: str = CRITICAL) -> Expectation:
    """No row of the table meets the condition."""
    return no_rows(check_id, f"select * from {{batch}} where {condition}", failure, severity)


def has_rows(failure: str, severity: str = CRITICAL) -> Expectation:
    from expectations.engine import ExpectTableRowCountToBeBetween

    return ExpectTableRowCountToBeBetween(min_value=1, **_carried("has_rows", severity, failure))


def one_of(column: str, values: Iterable[str]) -> Expectation:
    """The column's values are in a closed list."""
    from expectations.engine import ExpectColumnValuesToBeInSet

    failure = f"{column} has a value that readers do not know: add it to the list in the design first, or repair the model."
    return ExpectColumnValuesToBeInSet(
        column=column, value_set=list(values), **_carried(f"{column}_in_closed_list", CRITICAL, failure)
    )


def between(columns: str | Sequence[str], low: float, high: float | None = None) -> Expectation:
    """Each of the columns is null or within the bounds, both included, give or take `TOLERANCE` of rounding."""
    names = [columns] if isinstance(columns, str) else columns
    above = "" if high is None else f" or {{0}} > {high + TOLERANCE!r}"
    condition = " or ".join(f"{{0}} < {low - TOLERANCE!r}{above}".format(name) for name in names)
    bounds = f"below {low:g}" if high is None else f"outside {low:g} to {high:g}"
    limits = f"at_least_{low:g}" if high is None else f"{low:g}_to_{high:g}"
    failure = f"One of {', '.join(names)} is {bounds}, which cannot be: the arithmetic of the model is wrong."
    return no_rows_where(f"values_{limits}", condition, failure)


def at_least_zero(*columns: str) -> Expectation:
    return between(columns, 0)


def ratios(*columns: str) -> Expectation:
    return between(columns, 0, 1)


def finite(table: Table) -> list[Expectation]:
    """No double of the table is NaN or infinite; nothing to say about a table without doubles."""
    doubles = [name for name, kind in table.columns.items() if kind in ("DOUBLE", "FLOAT")]
    if not doubles:
        return []
    condition = " or ".join(f"not isfinite({name})" for name in doubles)
    failure = "A number is NaN or infinite and poisons every sum: divide by `nullif(…, 0)`, and turn NaN to null in staging."
    return [no_rows_where("numbers_finite", condition, failure)]


def references(column: str, dimension: str, key_column: str | None = None) -> Expectation:
    """Every value of the column is a member of the dimension."""
    target = key_column or column
    query = f"""
        select facts.* from {{batch}} as facts
        anti join main.{dimension} as members on facts.{column} = members.{target}"""
    failure = (
        f"{column} has a value that {dimension} does not know, so that a join loses its rows: the dimension is missing a member."
    )
    return no_rows(f"{column}_in_{dimension}", query, failure)


def sums_to(total: str, *parts: str, check_id: str | None = None) -> Expectation:
    """The parts of every row add up to its total."""
    condition = f"not (abs({' + '.join(parts)} - {total}) <= {TOLERANCE:.6f} * greatest(1, abs({total})))"
    failure = f"{', '.join(parts)} do not add up to {total}: hours are lost or counted twice between the ledger and this table."
    return no_rows_where(check_id or f"{total}_is_sum_of_parts", condition, failure)


#: column → the dimension that knows its values; `state` is not here, since a run's state is another thing
FOREIGN_KEYS = {
    "cluster": "dim_clusters",
    "node_id": "dim_nodes",
    "gpu_id": "dim_gpus",
    "gpu_model": "dim_gpu_models",
    "slot_id": "dim_slots",
    "run_id": "dim_runs",
    "workload_id": "dim_workloads",
    "model": "dim_models",
}
#: what stands for nothing known, where the dimension of things has no row for it
NOBODY = ("unknown", "unallocated")
OF_THINGS = ("node_id", "gpu_id", "slot_id")
#: columns of such a name that hold something else as well
NO_FOREIGN_KEYS = {
    # the line of what nobody held stands under `unallocated` in each of its columns
    ("mart_cost_allocation_daily", "model"),
}


def keys_in_dimensions(table: Table, known: Iterable[str] = ()) -> list[Expectation]:
    """Every key of the table that leads to a dimension finds its member there; one rule for all those not `known` by a rule.

    A null leads nowhere and is another rule's affair. A day outside of the calendar is a warning: one odd instant must not hold
    all others.
    """
    columns = [
        column
        for column, dimension in FOREIGN_KEYS.items()
        if column in table.columns
        and table.name != dimension
        and (table.name, column) not in NO_FOREIGN_KEYS
        and f"{column}_in_{dimension}" not in set(known)
    ]
    found = []
    if columns:
        failure = (
            f"{', '.join(columns)}: a value that its dimension does not know, so that a join loses its rows: the dimension is "
            "missing a member, or was built from other landings than this table; build again."
        )
        found.append(no_rows("keys_in_dimensions", " union all ".join(_strangers(column) for column in columns), failure))
    if "usage_date" in table.columns and table.name != "dim_date":
        query = """
            select facts.usage_date, count(*) as row_count from {batch} as facts
            anti join main.dim_date as days on facts.usage_date = days.usage_date
            where facts.usage_date is not null group by facts.usage_date"""
        failure = (
            "A day that the calendar (dim_date) does not have: a source gave an instant decades away; joins by week lose it."
        )
        found.append(no_rows("days_in_dim_date", query, failure, WARNING))
    return found


def _strangers(column: str) -> str:
    """A query for the values of a key that its dimension lacks, with the number of their rows."""
    nobody = ", ".join(f"'{name}'" for name in NOBODY)
    known = f" and facts.{column} not in ({nobody})" if column in OF_THINGS else ""
    return f"""
        select '{column}' as key_column, facts.{column} as value, count(*) as row_count
        from {{batch}} as facts anti join main.{FOREIGN_KEYS[column]} as members on facts.{column} = members.{column}
        where facts.{column} is not null{known} group by facts.{column}"""
