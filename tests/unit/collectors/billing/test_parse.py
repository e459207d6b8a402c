from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collectors.billing.client import read_bill
from collectors.billing.collect import billing
from collectors.billing.findings import rounded_providers
from collectors.billing.focus import FOCUS
from collectors.billing.formats import FORMATS, mapping_table
from collectors.billing.parse import newest_usage_end
from collectors.billing.schema import focus_name
from collectors.command import SourceFailedError
from tests.unit.collectors.billing.bills import LINE, bill, landed, read, save


def test_a_line_lands_as_delivered_with_its_line_number() -> None:
    (row,) = landed(read(bill({"x_Discount": "1", "Tags": '{"team": "a"}'})))
    assert (row["billed_cost"], row["effective_cost"]) == (Decimal("1.5"), Decimal("1.25"))
    assert (row["resource_id"], row["tags"], row["line_number"]) == ("i-0abc", '{"team": "a"}', 2)
    assert row["charge_period_start"] == datetime(2026, 10, 31, 22)


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-10-31 22:00:00", datetime(2026, 10, 31, 22)),
        ("2026-10-31T22:00:00Z", datetime(2026, 10, 31, 22)),
        ("2026-10-31T22:00Z", datetime(2026, 10, 31, 22)),
        ("2026-10-31T22:00", datetime(2026, 10, 31, 22)),
        ("2026-10-31 22:00:00.000", datetime(2026, 10, 31, 22)),
        ("2026-10-31 22:00:00 UTC", datetime(2026, 10, 31, 22)),
        ("2026-10-31T17:00:00-05:00", datetime(2026, 10, 31, 22)),
        ("2026-10-31", datetime(2026, 10, 31)),
    ],
)
def test_a_time_without_an_offset_is_utc_in_whatever_style(text: str, instant: datetime) -> None:
    (row,) = landed(read(bill({"ChargePeriodStart": text})))
    assert row["charge_period_start"] == instant


def test_null_is_null_and_scientific_notation_is_a_number() -> None:
    text = bill({"ListCost": "NULL", "PricingQuantity": "9.984E-7", "SkuId": "null", "BilledCost": "-2.6137", "Tags": "NULL"})
    (row,) = landed(read(text))
    assert (row["list_cost"], row["sku_id"], row["tags"]) == (None, None, None)
    assert (row["pricing_quantity"], row["billed_cost"]) == (Decimal("9.984E-7"), Decimal("-2.6137"))


def test_columns_are_known_whatever_their_case_and_order_and_optional_ones_may_be_missing() -> None:
    names = list(reversed(LINE))
    text = ",".join(name.upper() for name in names) + "\n" + ",".join(LINE[name] for name in names) + "\n"
    (row,) = landed(read(text))
    assert (row["provider_name"], row["sub_account_id"]) == ("AWS", None)
    assert FOCUS.known(["billed_cost", "Billing Account Id", "x_sku", "PublisherName"]) == {"BilledCost", "BillingAccountId"}


def test_allowed_values_get_their_spelling_and_others_stay() -> None:
    rows = landed(read(bill({"ChargeCategory": "usage", "BillingCurrency": "usd"}, {"ChargeCategory": "Rebate"})))
    assert [(row["charge_category"], row["billing_currency"]) for row in rows] == [("Usage", "USD"), ("Rebate", "USD")]


def test_tags_that_are_no_json_cost_the_tags_and_not_the_money() -> None:
    parsed = read(bill({"Tags": '"team": "a"'}, {"Tags": "team=a"}))
    assert [row["tags"] for row in landed(parsed)] == ['{"team": "a"}', None]
    assert parsed.unreadable_tags == 1


def test_a_bill_that_is_not_focus_is_refused_with_the_columns_it_lacks() -> None:
    with pytest.raises(SourceFailedError, match="it lacks EffectiveCost, ProviderName"):
        read(bill({}, leave_out=["EffectiveCost", "ProviderName"]))
    with pytest.raises(SourceFailedError, match=r"no column of it is one of theirs; for FOCUS it lacks BilledCost.*import"):
        read("Id,Amount\na,b\n")
    with pytest.raises(SourceFailedError, match="empty"):
        read("")


def test_a_line_with_too_few_or_too_many_fields_is_a_reject_with_its_line() -> None:
    text = bill({}, {}) + "1,2\n" + bill({}).splitlines()[1] + ",surplus\n"
    parsed = read(text)
    assert parsed.frame["line_number"].to_list() == [2, 3]
    assert [(reject.line, reject.reason) for reject in parsed.rejects] == [(4, "malformed"), (5, "malformed")]
    assert parsed.last_line == 5


def test_a_cell_with_a_line_break_does_not_move_the_lines_after_it() -> None:
    parsed = read(bill({"ChargeDescription": "two\nlines"}, {}))
    assert parsed.frame["line_number"].to_list() == [2, 4]


def test_parquet_keeps_its_types_and_reads_texts_as_csv_does(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            **{
                name: [value]
                for name, value in LINE.items()
                if "Period" not in name and name not in ("BilledCost", "EffectiveCost")
            },
            "BilledCost": pl.Series([Decimal("1.000000000001")], dtype=pl.Decimal(38, 12)),
            "EffectiveCost": [0.1],
            "BillingPeriodStart": [datetime(2026, 10, 1)],
            "BillingPeriodEnd": [datetime(2026, 11, 1)],
            "ChargePeriodStart": pl.Series([datetime(2026, 10, 31, 22)]).dt.replace_time_zone("UTC"),
            "ChargePeriodEnd": ["2026-10-31 23:00:00"],
            "SkuId": ["NULL"],
            "Tags": [[{"key": "team", "value": "a"}]],
            "x_extra": [1],
        }
    )
    frame.write_parquet(tmp_path / "bill.parquet")
    parsed = read_bill(tmp_path / "bill.parquet")
    (row,) = landed(parsed)
    assert (row["billed_cost"], row["effective_cost"]) == (Decimal("1.000000000001"), Decimal("0.1"))
    assert (row["charge_period_start"], row["charge_period_end"]) == (datetime(2026, 10, 31, 22), datetime(2026, 10, 31, 23))
    assert (row["sku_id"], row["tags"], row["line_number"]) == (None, '{"team": "a"}', 1)
    assert list(parsed.ignored) == ["x_extra"]


def test_how_far_a_bill_reaches_is_its_newest_usage_and_not_a_fee_for_the_month() -> None:
    parsed = read(
        bill({}, {"ChargePeriodEnd": "2026-10-31T22:30Z"}, {"ChargeCategory": "Purchase", "ChargePeriodEnd": "2026-12-01"})
    )
    assert newest_usage_end(parsed.frame) == datetime(2026, 10, 31, 23)
    assert newest_usage_end(read(bill({"ChargeCategory": "Tax"})).frame) == datetime(2026, 10, 31, 23)
    assert newest_usage_end(read(bill({"ChargePeriodEnd": "soon"})).frame) is None


def test_effective_costs_that_were_rounded_are_noticed_by_provider() -> None:
    text = bill(
        {"EffectiveCost": "2", "BilledCost": "1.624"},
        {"EffectiveCost": "-3", "BilledCost": "-2.6"},
        {"ProviderName": "Microsoft", "EffectiveCost": "0.5"},
        {"ProviderName": "Oracle", "EffectiveCost": "2", "BilledCost": "2"},
    )
    assert rounded_providers(read(text).frame) == [("AWS", 2, pytest.approx(-0.976), -1.0)]


def test_a_focus_name_is_written_as_focus_writes_it() -> None:
    assert [focus_name(name) for name in ("billed_cost", "sku_price_id")] == ["BilledCost", "SkuPriceId"]


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.binary(max_size=200),
        st.binary(max_size=80).map(lambda tail: bill({}).encode() + tail),
        st.binary(max_size=60).map(lambda tail: b"PAR1" + tail),
        st.binary(max_size=60).map(lambda tail: b"\x1f\x8b" + tail),
        st.binary(max_size=60).map(lambda tail: b"\xff\xfe" + tail),
    )
)
def test_arbitrary_bytes_are_a_bill_or_a_failed_source(tmp_path: Path, data: bytes) -> None:
    try:
        parsed = read_bill(save(tmp_path, "any.csv", data))
    except SourceFailedError:
        return
    assert "billed_cost" in parsed.frame.columns


@pytest.mark.parametrize("name", FORMATS)
def test_a_reader_can_check_a_format_column_by_column(name: str) -> None:
    """Each landing column once, the provider's own names, and words for what is not taken as it is."""
    lines = [line.split(" | ") for line in mapping_table(FORMATS[name]).splitlines()[4:]]
    assert [line[0].removeprefix("| ").split(" ")[0] for line in lines[: len(FORMATS[name].fields)]] == [
        field.column for field in FORMATS[name].fields
    ]
    silent = [
        field.column
        for field in FORMATS[name].fields
        if field.derive is not None and field.how in ("as it is", "the first that has a value")
    ]
    assert silent == []
    assert "effective_cost" in CliRunner().invoke(billing, ["--mapping", name]).output
