"""The FOCUS 1.0 sample: a month of anonymised bills of three providers.

Figures recomputed from the file with Python's decimal: billed 18.0066386184 (AWS), 1.97651418586 (Microsoft),
0.53707392473 (Oracle); 13 lines below zero; effective cost whole dollars on all AWS and Oracle lines.
"""

from __future__ import annotations

import csv
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from collectors.billing.collect import billing

pytestmark = pytest.mark.real


@pytest.fixture
def sample(real_data: Path) -> Path:
    return real_data / "focus-1.0-sample" / "focus_sample.csv"


def land(home: Path, sample: Path) -> tuple[pl.DataFrame, str]:
    result = CliRunner().invoke(billing, [str(sample)])
    assert result.exit_code == 0, result.output
    return pl.read_parquet(home / "raw/billing/billing_lines/**/*.parquet"), result.output


def total(lines: pl.DataFrame, column: str) -> dict[str, Decimal]:
    grouped = lines.group_by("provider_name").agg(pl.col(column).sum())
    return {str(provider): amount for provider, amount in grouped.iter_rows()}


def test_every_line_lands_and_the_billed_sums_are_exact(home: Path, sample: Path) -> None:
    lines, _ = land(home, sample)
    assert lines["provider_name"].value_counts(sort=True).rows() == [("AWS", 942), ("Microsoft", 51), ("Oracle", 7)]
    assert total(lines, "billed_cost") == {
        "AWS": Decimal("18.0066386184"),
        "Microsoft": Decimal("1.97651418586"),
        "Oracle": Decimal("0.53707392473"),
    }
    assert lines.filter(pl.any_horizontal(pl.col("billed_cost", "effective_cost") < 0)).height == 13


def test_each_line_is_found_again_under_its_line_number(home: Path, sample: Path) -> None:
    lines, _ = land(home, sample)
    with sample.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        header = next(reader)
        column = {name: header.index(name) for name in ("BilledCost", "EffectiveCost", "ResourceId", "ChargePeriodStart")}
        start = reader.line_num + 1
        expected = {}
        for row in reader:
            expected[start] = (
                Decimal(row[column["BilledCost"]]),
                Decimal(row[column["EffectiveCost"]]),
                None if row[column["ResourceId"]] == "NULL" else row[column["ResourceId"]],
                datetime.fromisoformat(row[column["ChargePeriodStart"]]),
            )
            start = reader.line_num + 1
    landed = lines.select("line_number", "billed_cost", "effective_cost", "resource_id", "charge_period_start")
    assert {row[0]: row[1:] for row in landed.iter_rows()} == expected


def test_effective_costs_rounded_to_whole_dollars_are_told_by_provider(home: Path, sample: Path) -> None:
    lines, output = land(home, sample)
    assert (
        "EffectiveCost of AWS is a whole number in all 942 lines while BilledCost is not (13.00 against 18.01 in sum)" in output
    )
    assert "EffectiveCost of Oracle is a whole number in all 7 lines" in output
    assert "EffectiveCost of Microsoft" not in output
    assert total(lines, "effective_cost")["AWS"] == Decimal(13)


def test_the_ten_gpu_lines_are_their_quantity_times_the_price_in_their_text(home: Path, sample: Path) -> None:
    lines, _ = land(home, sample)
    text = r"^\$(\d+\.\d+) per On Demand Linux g[35]\.4xlarge"
    gpu = lines.with_columns(pl.col("charge_description").str.extract(text).alias("price")).drop_nulls("price")
    assert gpu["price"].value_counts().sort("price").rows() == [("1.14", 2), ("1.624", 8)]
    for row in gpu.iter_rows(named=True):
        assert row["billed_cost"] == row["consumed_quantity"] * Decimal(row["price"])
        assert (row["resource_type"], row["resource_id"][:2]) == ("instance", "i-")
    assert gpu["billed_cost"].sum() == Decimal("12.126483324")


def test_times_are_utc_and_null_is_null(home: Path, sample: Path) -> None:
    lines, _ = land(home, sample)
    assert lines["charge_period_start"].min() == datetime(2024, 9, 1)
    assert set(lines["delivered_at"]) == {datetime(2024, 10, 1)}
    assert lines["tags"].null_count() == 289
    texts = lines.select(pl.col(pl.String))
    assert texts.select(pl.any_horizontal(pl.all().str.to_lowercase() == "null").any()).item() is False


def test_landing_it_twice_changes_nothing(home: Path, sample: Path) -> None:
    land(home, sample)
    before = {path: path.stat().st_mtime_ns for path in home.rglob("*.parquet")}
    land(home, sample)
    assert {path: path.stat().st_mtime_ns for path in home.rglob("*.parquet")} == before
