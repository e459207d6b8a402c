"""Exposures tell the truth: what each reader's code reads, and no published mart without a reader."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tests.project.test_dbt_project import MODELS, models

PROJECT = MODELS.parents[1]
#: exposure → the files whose SQL it stands for
CODE: Mapping[str, tuple[str, ...]] = {
    "digest": ("warehouse/digest/*.py", "warehouse/publication/relations.py"),
    "first_screen": ("warehouse/first_screen.py",),
    "report": ("warehouse/report/*.py", "warehouse/digest/*.py", "warehouse/publication/relations.py"),
    "dashboard": ("dbt_project/dashboards/superset/datasets/*/*.yaml",),
    "questions": ("warehouse/questions/sql/*.sql",),
}
TABLE = re.compile(r"(?:\b(?:from|join|table_name:)\s+|_since\(connection, \")((?:dim|fct|mart|audit)_\w+|data_dictionary)")


def exposures() -> dict[str, set[str]]:
    """Exposure → the models it depends on."""
    declared = yaml.safe_load((MODELS / "exposures.yml").read_text())["exposures"]
    for exposure in declared:
        assert exposure["owner"]["name"]
        assert exposure["description"]
    return {
        exposure["name"]: {match for entry in exposure["depends_on"] for match in re.findall(r"ref\('(\w+)'\)", entry)}
        for exposure in declared
    }


@pytest.mark.parametrize("exposure", CODE)
def test_an_exposure_lists_what_its_code_reads(exposure: str) -> None:
    files = [file for pattern in CODE[exposure] for file in sorted(PROJECT.glob(pattern))]
    assert files
    read = {table for file in files for table in TABLE.findall(_without_comments(file))}
    assert exposures()[exposure] == read


def test_every_mart_has_a_reader_and_those_of_pages_are_not_called_ad_hoc() -> None:
    by_exposure = exposures()
    shown = set().union(*(tables for name, tables in by_exposure.items() if name != "ad_hoc"))
    marts = {model.name for model in models() if model.layer == "mart"}
    assert marts <= shown | by_exposure["ad_hoc"], "list it under `ad_hoc` in exposures.yml, or where it is shown"
    assert not shown & by_exposure["ad_hoc"]
    assert by_exposure["ad_hoc"] <= marts


def _without_comments(file: Path) -> str:
    return re.sub(r"(?m)^\s*(--|#).*$", "", file.read_text())
