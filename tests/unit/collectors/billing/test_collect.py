from __future__ import annotations

import gzip
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner, Result

from collectors.billing.collect import billing
from tests.unit.collectors.billing.bills import bill, save


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(billing, [str(argument) for argument in arguments])


def lines(home: Path) -> pl.DataFrame:
    return pl.read_parquet(home / "raw/billing/billing_lines/**/*.parquet").sort("delivered_at", "line_number")


def test_a_bill_lands_once_whatever_its_name_and_packing(home: Path, tmp_path: Path) -> None:
    text = bill({}, {"BilledCost": "-1"})
    plain, packed = save(tmp_path, "october.csv", text), save(tmp_path, "again.csv.gz", gzip.compress(text.encode()))
    assert run(plain).exit_code == 0
    files = sorted(home.rglob("*.parquet"))
    assert run(plain).exit_code == 0
    assert run(packed).exit_code == 0
    assert sorted(home.rglob("*.parquet")) == files
    assert lines(home)["billed_cost"].to_list() == [Decimal("1.5"), Decimal("-1")]


def test_a_delivery_without_a_time_counts_as_delivered_at_its_newest_usage(home: Path, tmp_path: Path) -> None:
    assert run(save(tmp_path, "october.csv", bill({}))).exit_code == 0
    assert lines(home)["delivered_at"].to_list() == [datetime(2026, 10, 31, 23)]


def test_what_is_landed_later_counts_as_delivered_later_even_if_it_covers_less(home: Path, tmp_path: Path) -> None:
    first = save(tmp_path, "october.csv", bill({}))
    restated = save(tmp_path, "restated.csv", bill({"BilledCost": "1.2", "ChargePeriodEnd": "2026-10-31 22:30:00"}))
    for path in (first, restated, first):
        assert run(path).exit_code == 0
    assert [(row["billed_cost"], row["delivered_at"]) for row in lines(home).to_dicts()] == [
        (Decimal("1.5"), datetime(2026, 10, 31, 23)),
        (Decimal("1.2"), datetime(2026, 10, 31, 23, 0, 1)),
    ]


def test_another_accounts_delivery_does_not_move_the_time(home: Path, tmp_path: Path) -> None:
    run(save(tmp_path, "a.csv", bill({})))
    run(save(tmp_path, "b.csv", bill({"BillingAccountId": "2"})))
    assert set(lines(home)["delivered_at"]) == {datetime(2026, 10, 31, 23)}


def test_delivery_and_its_time_may_be_given(home: Path, tmp_path: Path) -> None:
    run(save(tmp_path, "a.csv", bill({})), "--delivery-id", "october-2", "--delivered-at", "2026-11-05T06:00:00Z")
    (row,) = lines(home).to_dicts()
    assert (row["delivery_id"], row["delivered_at"]) == ("october-2", datetime(2026, 11, 5, 6))


def test_the_files_of_one_call_are_one_delivery_in_which_each_line_has_its_own_number(home: Path, tmp_path: Path) -> None:
    parts = [
        save(tmp_path, "part-1.csv", bill({}, {})),
        save(tmp_path, "part-2.csv", bill({"BilledCost": "7"}, {"BilledCost": "seven"})),
    ]
    result = run(*reversed(parts))
    assert result.exit_code == 4
    assert "part-2.csv:3" in result.output
    landed = lines(home)
    assert landed["delivery_id"].n_unique() == 1
    assert landed.select("line_number", "billed_cost").rows() == [(2, Decimal("1.5")), (3, Decimal("1.5")), (5, Decimal("7"))]
    assert run(*parts).exit_code == 4
    assert lines(home).height == 3


def test_a_line_that_breaks_the_shape_is_quarantined_with_file_line_and_reason(home: Path, tmp_path: Path) -> None:
    result = run(save(tmp_path, "a.csv", bill({}, {"ChargePeriodStart": "9/18/2026"}, {"EffectiveCost": "NULL"})))
    assert result.exit_code == 4
    assert "a.csv:3: malformed: charge_period_start: '9/18/2026' is no ISO 8601 instant" in result.output
    assert "a.csv:4: malformed: effective_cost: missing, but required" in result.output
    assert lines(home).height == 1


def test_the_notes_say_what_was_left_out_and_what_looks_rounded(home: Path, tmp_path: Path) -> None:
    text = bill({"EffectiveCost": "2", "BilledCost": "1.624", "x_Discount": "1", "PublisherName": "AWS", "Tags": "team=a"})
    output = run(save(tmp_path, "a.csv", text)).output
    assert (
        "warning: EffectiveCost of AWS is a whole number in all 1 lines while BilledCost is not (2.00 against 1.62 in sum)"
        in output
    )
    assert "left out: PublisherName" in output
    assert "own columns, left out: x_Discount" in output
    assert "tags of 1 lines" in output


@pytest.mark.parametrize("content", [b"", b"Id,Cost\n1,2\n", gzip.compress(bill({}).encode(), mtime=0)[:-20], bill().encode()])
def test_what_is_no_bill_fails_and_lands_nothing(home: Path, tmp_path: Path, content: bytes) -> None:
    result = run(save(tmp_path, "a.csv", content))
    assert result.exit_code == 1
    assert "a.csv" in result.output
    assert not (home / "raw/billing/billing_lines").exists()


def test_a_format_that_a_bill_is_not_of_is_refused_with_what_it_lacks(home: Path, tmp_path: Path) -> None:
    result = run(save(tmp_path, "a.csv", bill({})), "--format", "cur2")
    assert result.exit_code == 1
    assert "a.csv: no AWS CUR: it lacks line_item_unblended_cost" in result.output
    assert run(save(tmp_path, "a.csv", bill({})), "--format", "kubecost").exit_code == 2
