"""`data_dictionary`: written from what the models' YAML says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.unit.dbt.harness import Harness


def column(name: str, **meta: Any) -> SimpleNamespace:
    description = f"What {name} is: the reader's word for it."
    return SimpleNamespace(name=name, description=description, data_type="double", config=SimpleNamespace(meta=meta), meta={})


def node(name: str, *columns: SimpleNamespace, resource_type: str = "model", source_name: str = "") -> SimpleNamespace:
    return SimpleNamespace(
        name=name,
        description="One row per day.",
        resource_type=resource_type,
        source_name=source_name,
        columns={column.name: column for column in columns},
    )


def dictionary(harness: Harness, *nodes: SimpleNamespace, sources: tuple[SimpleNamespace, ...] = ()) -> list[dict[str, Any]]:
    graph = SimpleNamespace(
        nodes={str(number): node for number, node in enumerate(nodes)},
        sources={str(number): source for number, source in enumerate(sources)},
    )
    return harness.rows(harness.render("data_dictionary", graph=graph))


def test_every_published_column_has_a_row_and_no_other(harness: Harness) -> None:
    rows = dictionary(
        harness,
        node("mart_b", column("usage_date"), column("cost", unit="currency")),
        node("int_a", column("x", unit="h")),
        node("stg_a", column("x", unit="h")),
        node("dim_a", column("gpu_count", unit="count")),
        sources=(
            node("publication", column("version"), source_name="published"),
            node("runs", column("x"), source_name="landing"),
        ),
    )
    assert [(row["table_name"], row["column_name"]) for row in rows] == [
        ("dim_a", "gpu_count"),
        ("mart_b", "usage_date"),
        ("mart_b", "cost"),
        ("publication", "version"),
    ]


def test_what_may_be_summed_follows_from_unit_and_table(harness: Harness) -> None:
    rows = dictionary(
        harness,
        node(
            "mart_b",
            column("usage_date"),
            column("held_gpu_hours", unit="gpu_h"),
            column("memory_bytes", unit="bytes"),
            column("gpu_net_ratio", unit="ratio", formula="productive / held"),
            column("longest_idle_minutes", unit="min", is_additive=False),
        ),
        node("dim_a", column("gpu_count", unit="count")),
    )
    assert {row["column_name"]: row["is_additive"] for row in rows} == {
        "usage_date": None,
        "held_gpu_hours": True,
        "memory_bytes": False,
        "gpu_net_ratio": False,
        "longest_idle_minutes": False,
        "gpu_count": False,
    }
    assert next(row["formula"] for row in rows if row["column_name"] == "gpu_net_ratio") == "productive / held"


def test_a_description_may_hold_an_apostrophe(harness: Harness) -> None:
    (row,) = dictionary(harness, node("fct_a", column("x")))
    assert row["description"] == "What x is: the reader's word for it."


def test_no_model_leaves_an_empty_table(harness: Harness) -> None:
    assert dictionary(harness) == []
