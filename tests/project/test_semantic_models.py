"""MetricFlow's definitions name columns that there are, and every metric its measures; dbt checks the rest when it reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from tests.project.test_dbt_project import MODELS, models

DECLARED = yaml.safe_load((MODELS / "semantic_models.yml").read_text())
WORDS = frozenset({"case", "when", "then", "end", "else", "is", "not", "null", "and", "or", "sum"})


def parts(model: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each entity, dimension and measure with the expression that it stands for."""
    for kind in ("entities", "dimensions", "measures"):
        for part in model.get(kind, []):
            yield part["name"], part.get("expr", part["name"])


def test_expressions_are_made_of_the_models_columns() -> None:
    columns = {model.name: {column["name"] for column in model.columns} for model in models()}
    for semantic in DECLARED["semantic_models"]:
        (name,) = re.findall(r"ref\('(\w+)'\)", semantic["model"])
        for part, expression in parts(semantic):
            unknown = set(re.findall(r"[a-z_]\w*", expression)) - WORDS - columns[name]
            assert not unknown, f"{semantic['name']}.{part}: {name} has no {unknown}"


def test_ratios_are_of_metrics_and_simple_metrics_of_measures() -> None:
    measures = {part["name"] for semantic in DECLARED["semantic_models"] for part in semantic.get("measures", [])}
    metrics = {metric["name"]: metric for metric in DECLARED["metrics"]}
    assert {"gpu_net", "gpu_net_high", "coverage", "ghost_cost", "cost_per_million_tokens"} <= metrics.keys()
    for name, metric in metrics.items():
        assert metric["label"], name
        assert metric["description"].endswith("."), name
        if metric["type"] == "ratio":
            assert {metric["type_params"]["numerator"], metric["type_params"]["denominator"]} <= metrics.keys(), name
        else:
            assert metric["type_params"]["measure"] in measures, name
