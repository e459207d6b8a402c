"""Rows against the landing shape: what is typed, what is a gap with a reason, what is left out and why."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from warehouse.landing.conform import Conformed, conform, redact
from warehouse.landing.shape import TABLES

SAMPLE = {
    "cluster": "c1",
    "node": "n1",
    "gpu_uuid": "GPU-1",
    "interval_start_at": "2026-11-01T00:00:00Z",
    "interval_ms": "10000",
    "source": "test",
}
RUN = {
    "cluster": "c1",
    "scheduler": "slurm",
    "job_id": "1",
    "name": "train",
    "state": "RUNNING",
    "observed_at": "2026-11-01T01:00:00Z",
}
USAGE = {
    "cluster": "c1",
    "server": "s:8000",
    "model": "m",
    "interval_start_at": "2026-11-01T00:00:00Z",
    "interval_ms": "60000",
    "request_count": "1",
}
BILL = {
    "billed_cost": "1.0",
    "effective_cost": "1.0",
    "billing_currency": "USD",
    "billing_period_start": "2026-11-01T00:00:00Z",
    "billing_period_end": "2026-12-01T00:00:00Z",
    "charge_period_start": "2026-11-01T00:00:00Z",
    "charge_period_end": "2026-11-01T01:00:00Z",
    "charge_category": "Usage",
    "provider_name": "AWS",
    "billing_account_id": "1",
    "delivery_id": "d1",
    "delivered_at": "2026-11-02T00:00:00Z",
}
ROWS: dict[str, dict[str, Any]] = {"gpu_samples": SAMPLE, "runs": RUN, "inference_usage": USAGE, "billing_lines": BILL}


def conform_column(table: str, name: str, values: list[Any], dtype: Any = None) -> Conformed:
    """Rows of `table` that are good but for `name`, which takes the values."""
    frame = pl.DataFrame([{key: value for key, value in ROWS[table].items() if key != name}] * len(values))
    return conform(TABLES[table], frame.with_columns(pl.Series(name, values, dtype=dtype, strict=False)), "file.csv")


def conform_value(table: str, name: str, value: Any, dtype: Any = None) -> tuple[Any, str | None, str | None]:
    """(the value landed, why the row was left out, why the value is missing)."""
    done = conform_column(table, name, [value], dtype)
    if done.rejects:
        return None, done.rejects[0].detail, None
    row = done.rows.row(0, named=True)
    return row[name], None, json.loads(row.get("missing") or "{}").get(name)


@pytest.mark.parametrize(
    ("written", "instant"),
    [
        ("2026-11-01T00:00:00Z", datetime(2026, 11, 1)),
        ("2026-11-01T00:00:00+02:00", datetime(2026, 10, 31, 22)),
        ("2026-11-01T00:00:00-0430", datetime(2026, 11, 1, 4, 30)),
        ("2026-11-01", datetime(2026, 11, 1)),
        ("2026-11-01 00:00:00 UTC", datetime(2026, 11, 1)),
        ("2026-11-01 00:00:00Z", datetime(2026, 11, 1)),
        ("  2026-11-01T00:00:00Z ", datetime(2026, 11, 1)),
        ("2026-11-01T00:00Z", datetime(2026, 11, 1)),
        ("2026-11-01T00:00:00.5Z", datetime(2026, 11, 1, 0, 0, 0, 500000)),
        ("2026-11-01T00:00:00.1234567Z", datetime(2026, 11, 1, 0, 0, 0, 123456)),
        ("2026-11-01T00:00:00.999999999Z", datetime(2026, 11, 1, 0, 0, 0, 999999)),
        ("9999-12-31", datetime(9999, 12, 31)),
    ],
)
def test_an_instant_with_an_offset_and_a_date_land_as_utc(written: str, instant: datetime) -> None:
    assert conform_value("runs", "started_at", written)[0] == instant


@pytest.mark.parametrize(
    ("written", "remedy"),
    [
        ("2026-11-01T00:00:00", "write 2026-11-01T00:00:00Z if it is UTC"),
        ("2026-11-01 00:00:00", "write 2026-11-01T00:00:00Z if it is UTC"),
        ("1761955200", "write 2026-11-01T00:00:00Z"),
        ("yesterday", "write 2026-11-01T00:00:00Z"),
        ("2026-02-30T00:00:00Z", "write 2026-11-01T00:00:00Z"),
        ("2026-11-01T23:59:60Z", "write 2026-11-01T00:00:00Z"),
        ("0001-01-01T00:00:00+05:00", ""),
    ],
)
def test_a_time_without_an_offset_is_left_out_with_the_remedy(written: str, remedy: str) -> None:
    value, problem, _ = conform_value("runs", "started_at", written)
    assert value is None
    assert problem is not None
    assert problem.startswith("started_at: ")
    assert remedy in problem


def test_an_epoch_number_is_no_instant() -> None:
    assert "write 2026-11-01T00:00:00Z" in (conform_value("runs", "started_at", 1761955200)[1] or "")


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (pl.Datetime("ns"), datetime(2026, 11, 1, 5)),
        (pl.Datetime("us"), datetime(2026, 11, 1, 5)),
        (pl.Datetime("ms"), datetime(2026, 11, 1, 5)),
        (pl.Datetime("ms", "America/New_York"), datetime(2026, 11, 1, 5, tzinfo=timezone.utc)),  # noqa: UP017
        (pl.Datetime("ns", "Asia/Tokyo"), datetime(2026, 11, 1, 5, tzinfo=timezone.utc)),  # noqa: UP017
    ],
)
def test_parquet_times_are_utc_whatever_their_unit_and_zone(dtype: Any, value: datetime) -> None:
    series = pl.Series("started_at", [value]).cast(dtype) if value.tzinfo is None else None
    if series is None:
        series = pl.Series("started_at", [value]).dt.convert_time_zone(dtype.time_zone).cast(dtype)
    frame = pl.DataFrame([RUN]).with_columns(series)
    assert conform(TABLES["runs"], frame, "f").rows["started_at"].to_list() == [datetime(2026, 11, 1, 5)]


def test_a_parquet_date_is_utc_midnight_and_a_time_no_calendar_holds_is_left_out() -> None:
    assert conform_value("runs", "started_at", date(2026, 11, 1))[0] == datetime(2026, 11, 1)
    far = pl.Series("started_at", [2**62, 0]).cast(pl.Datetime("ms"))
    done = conform(TABLES["runs"], pl.DataFrame([RUN, RUN]).with_columns(far), "f")
    assert done.rows.height == 1
    assert "years 1 to 9999" in done.rejects[0].detail


@pytest.mark.parametrize(
    ("written", "number"),
    [
        ("4", 4),
        ("4.0", 4),
        ("1e3", 1000),
        (" 7 ", 7),
        ("+7", 7),
        (4.0, 4),
        (True, 1),
        (None, None),
        ("", None),
        (Decimal("5"), 5),
    ],
)
def test_a_whole_number_may_be_written_in_many_ways(written: Any, number: int | None) -> None:
    assert conform_value("runs", "node_count", written)[:2] == (number, None)


@pytest.mark.parametrize(
    "written", ["4.5", "1_000", "0x10", "four", "9223372036854775808", "nan", "inf", 4.5, float("nan"), 2**63]
)
def test_what_is_no_whole_number_is_left_out(written: Any) -> None:
    assert "is no whole number" in (conform_value("runs", "node_count", written)[1] or "")


@pytest.mark.parametrize("written", ["-1", -1, -1.0])
def test_a_count_below_zero_is_left_out(written: Any) -> None:
    assert conform_value("runs", "node_count", written)[1] == "node_count: -1 is below 0"


@pytest.mark.parametrize(("written", "number"), [("0.5", 0.5), ("1e-3", 0.001), (2, 2.0), (".5", 0.5)])
def test_a_double_may_be_written_in_many_ways(written: Any, number: float) -> None:
    assert conform_value("runs", "gpu_count", written)[0] == number


@pytest.mark.parametrize("written", ["nan", "inf", "-inf", "half", float("inf"), float("nan")])
def test_what_is_no_finite_number_is_left_out(written: Any) -> None:
    assert "number" in (conform_value("runs", "gpu_count", written)[1] or "")


@pytest.mark.parametrize(
    ("written", "amount"),
    [
        ("0.1", "0.1"),
        ("1.5E-7", "0.00000015"),
        ("-20", "-20"),
        ("12345678901234567890.123456789012", "12345678901234567890.123456789012"),
        (0.1, "0.1"),
        (7, "7"),
        (Decimal("3.30"), "3.3"),
    ],
)
def test_money_keeps_every_digit(written: Any, amount: str) -> None:
    assert conform_value("billing_lines", "effective_cost", written)[0] == Decimal(amount)


@pytest.mark.parametrize("written", ["NULL", "null", "", None])
def test_the_text_null_in_a_bill_is_null(written: Any) -> None:
    assert conform_value("billing_lines", "list_cost", written)[:2] == (None, None)
    assert conform_value("billing_lines", "resource_id", written)[:2] == (None, None)


@pytest.mark.parametrize("written", ["nan", "inf", "1_0", "ten", "1e26", float("nan")])
def test_what_is_no_amount_is_left_out(written: Any) -> None:
    assert "is no amount" in (conform_value("billing_lines", "effective_cost", written)[1] or "")


def test_a_job_may_be_named_null() -> None:
    assert conform_value("runs", "name", "NULL")[0] == "NULL"


@pytest.mark.parametrize("infinity", ['"+Inf"', "Infinity", '"Infinity"', "1e999"])
def test_a_histogram_ends_in_infinity_and_is_sorted(infinity: str) -> None:
    text = f'[{{"le_seconds": {infinity}, "count": 3}}, {{"le_seconds": 0.5, "count": 1}}]'
    landed = conform_value("inference_usage", "latency_histogram", text)[0]
    assert landed == [{"le_seconds": 0.5, "count": 1.0}, {"le_seconds": float("inf"), "count": 3.0}]


@pytest.mark.parametrize("text", ["{}", "[1]", '[{"le_seconds": 1}]', '[{"le_seconds": "NaN", "count": 1}]', "[", "5"])
def test_what_is_no_histogram_is_left_out(text: str) -> None:
    assert (conform_value("inference_usage", "latency_histogram", text)[1] or "").startswith("latency_histogram: ")


def test_a_nested_histogram_of_a_parquet_file_lands_whatever_the_order_of_its_fields() -> None:
    landed = conform_value(
        "inference_usage", "latency_histogram", [{"count": 2, "le_seconds": 1.0}, {"count": 1, "le_seconds": 0.5}]
    )
    assert landed[0] == [{"le_seconds": 0.5, "count": 1.0}, {"le_seconds": 1.0, "count": 2.0}]


@pytest.mark.parametrize(
    ("written", "value"), [("true", True), ("FALSE", False), ("1", True), ("no", False), (True, True), (0, False)]
)
def test_a_boolean_may_be_written_in_many_ways(written: Any, value: bool) -> None:
    assert conform_value("inference_usage", "prompt_includes_cached", written)[0] is value


def test_what_is_no_boolean_is_left_out() -> None:
    assert "neither true nor false" in (conform_value("inference_usage", "prompt_includes_cached", "maybe")[1] or "")


def test_nested_labels_land_as_json_and_broken_json_does_not() -> None:
    assert json.loads(conform_value("runs", "labels", {"team": {"name": "a"}})[0]) == {"team": {"name": "a"}}
    assert conform_value("runs", "labels", '{"team": "a"}')[0] == '{"team": "a"}'
    assert (conform_value("runs", "labels", "{team")[1] or "").startswith("labels: ")


@pytest.mark.parametrize(
    ("written", "nodes"), [("n[1-3]", "n1,n2,n3"), ("b,a", "a,b"), ("n01", "n01"), ("n[01-02],m7", "m7,n01,n02")]
)
def test_a_node_list_is_expanded(written: str, nodes: str) -> None:
    assert conform_value("runs", "node_list", written)[0] == nodes


@pytest.mark.parametrize("written", ["n[", "n[3-1]", "n[1-1000000000]", "n[1-200000]"])
def test_what_is_no_node_list_is_left_out(written: str) -> None:
    assert (conform_value("runs", "node_list", written)[1] or "").startswith("node_list: ")


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("[N/A]", "not_supported"),
        ("N/A", "not_supported"),
        ("[Not Supported]", "not_supported"),
        ("-", "not_supported"),
        ("[Insufficient Permissions]", "not_permitted"),
        ("<<<NULL>>>", "not_supported"),
        ("NaN", "out_of_range"),
        ("9223372036854775794", "not_supported"),
        ("9223372036854775795", "not_permitted"),
        ("2147483634", "not_supported"),
        ("2147483635", "not_permitted"),
        ("140737488355328.0", "not_supported"),
        ("140737488355330", "not_supported"),
        ("140737488355331", "not_permitted"),
        ("1.294", "out_of_range"),
        ("1.0200000001", "out_of_range"),
        ("57", "out_of_range"),
        ("-0.1", "out_of_range"),
        (float("nan"), "out_of_range"),
        (float("inf"), "out_of_range"),
        (9223372036854775794, "not_supported"),
        (9223372036854775795, "not_permitted"),
    ],
)
def test_an_answer_that_is_no_ratio_is_null_with_a_reason(written: Any, reason: str) -> None:
    """Once blanks became 9.2e18 and were drawn as percent (gpu-monitoring-tools 152)."""
    assert conform_value("gpu_samples", "sm_active_ratio", written) == (None, None, reason)


@pytest.mark.parametrize(("written", "value"), [("1.02", 1.02), (1.02, 1.02), ("0", 0.0), ("1", 1.0), (0, 0.0), ("", None)])
def test_a_ratio_up_to_the_devices_rounding_is_kept_as_it_is(written: Any, value: float | None) -> None:
    assert conform_value("gpu_samples", "sm_active_ratio", written) == (value, None, None)


@pytest.mark.parametrize("written", ["32212254720", 32212254720, 2147483632, "2147483632", 32212254720.0])
def test_thirty_gibibytes_are_a_reading_although_beyond_the_32_bit_blank(written: Any) -> None:
    assert conform_value("gpu_samples", "memory_used_bytes", written) == (int(written), None, None)


def test_large_counters_keep_every_digit() -> None:
    assert conform_value("gpu_samples", "nvlink_rx_bytes", "9007199254740993")[0] == 9007199254740993
    assert conform_value("gpu_samples", "nvlink_rx_bytes", 9007199254740993)[0] == 9007199254740993


def test_a_reading_that_is_no_number_at_all_leaves_the_row_out() -> None:
    assert conform_value("gpu_samples", "power_watts", "hot")[1] == "power_watts: 'hot' is no number"


def test_reasons_found_join_those_the_source_gave() -> None:
    frame = pl.DataFrame(
        [
            {**SAMPLE, "power_watts": "[N/A]", "sm_active_ratio": "0.5", "missing": '{"xid": "gap"}'},
            {**SAMPLE, "power_watts": "70", "sm_active_ratio": "1.5", "missing": None},
            {**SAMPLE, "power_watts": "71", "sm_active_ratio": "0.5", "missing": "no json"},
        ]
    )
    assert [json.loads(text) if text else None for text in conform(TABLES["gpu_samples"], frame, "f").rows["missing"]] == [
        {"power_watts": "not_supported", "xid": "gap"},
        {"sm_active_ratio": "out_of_range"},
        None,
    ]


def test_a_required_column_of_nulls_leaves_every_row_out_with_its_line() -> None:
    frame = pl.DataFrame([{**SAMPLE, "gpu_uuid": None}] * 2).with_columns(line_number=pl.Series([5, 9]))
    done = conform(TABLES["gpu_samples"], frame, "a.csv")
    assert done.rows.height == 0
    assert [(reject.file, reject.line, reject.detail) for reject in done.rejects] == [
        ("a.csv", 5, "gpu_uuid: missing, but required"),
        ("a.csv", 9, "gpu_uuid: missing, but required"),
    ]


def test_one_bad_row_leaves_the_others() -> None:
    done = conform_column("gpu_samples", "interval_ms", ["10000", "0", "x", "20000"])
    assert done.rows["interval_ms"].to_list() == [10000, 20000]
    assert done.rows["line_number"].to_list() == [1, 4]
    assert [(reject.line, reject.detail) for reject in done.rejects] == [
        (2, "interval_ms: 0 is not above 0"),
        (3, "interval_ms: 'x' is no whole number"),
    ]


def test_an_end_before_its_start_leaves_the_row_out() -> None:
    frame = pl.DataFrame([{**RUN, "started_at": "2026-11-01T01:00:00Z", "ended_at": "2026-11-01T00:00:00Z"}])
    assert conform(TABLES["runs"], frame, "f").rejects[0].detail == "ended_at lies before started_at"


def test_a_value_outside_a_closed_list_leaves_the_row_out() -> None:
    assert conform_value("runs", "scheduler", "lsf")[1] == "scheduler: 'lsf' is none of kubernetes, other, slurm"


@pytest.mark.parametrize("frame", [pl.DataFrame(), pl.DataFrame([SAMPLE]).clear(), pl.DataFrame({"what": []})])
def test_an_empty_frame_gives_an_empty_frame_of_the_right_types(frame: pl.DataFrame) -> None:
    for table in TABLES.values():
        done = conform(table, frame, "f")
        assert done.rejects == []
        assert done.rows.schema == {column.name: column.polars_type for column in table.columns} | {"line_number": pl.Int64}


def test_columns_that_the_table_does_not_name_are_left_out_of_the_rows_and_of_the_quarantine() -> None:
    done = conform(TABLES["gpu_samples"], pl.DataFrame([{**SAMPLE, "prompt": "my diary"}] * 2).with_columns(interval_ms=0), "f")
    assert "prompt" not in done.rows.columns
    assert "diary" not in done.rejects[0].text
    assert "GPU-1" in done.rejects[0].text


def test_a_column_of_the_wrong_type_in_a_parquet_file_quarantines_its_rows() -> None:
    done = conform_column("gpu_samples", "interval_ms", [{"ms": 1}, {"ms": 2}])
    assert done.rows.height == 0
    assert [reject.line for reject in done.rejects] == [1, 2]


def test_an_id_that_a_data_frame_made_a_number_is_text_again() -> None:
    assert conform_value("runs", "job_id", 42)[0] == "42"
    assert conform_value("runs", "job_id", 42.0)[0] == "42"


def test_a_user_is_landed_as_a_keyed_hash_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPU_NET_USER_KEY", raising=False)
    assert conform_value("runs", "user", "alice")[:2] == (None, None)
    monkeypatch.setenv("GPU_NET_USER_KEY", "k")
    hashed = conform_value("runs", "user", "alice")[0]
    assert hashed.startswith("user-")
    assert hashed != conform_value("runs", "user", "bob")[0]
    assert conform_value("runs", "user", hashed)[0] == hashed


def test_a_quarantined_row_does_not_name_its_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPU_NET_USER_KEY", raising=False)
    rejects = conform(TABLES["runs"], pl.DataFrame([{**RUN, "user": "alice", "state": None}]), "f").rejects
    assert "alice" not in rejects[0].text


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer hush-hush-1",
        "authorization=Basic hush-hush-1",
        '{"api_key": "hush-hush-1"}',
        '{\\"token\\": \\"hush-hush-1\\"}',
        "password=hush-hush-1&x=1",
        "https://me:hush-hush-1@host/path",
        "sk-hush-hush-1",
        "hf_hushhushhush1",
        "AWS AKIAHUSHHUSH1HUSH",
        "eyJhdXNodXNo.eyJodXNoaHVzaA.hush-hush-1",
    ],
)
def test_secrets_are_redacted(text: str) -> None:
    assert "[redacted]" in redact(text)
    assert "hush-hush-1" not in redact(text)
    assert "HUSH1HUSH" not in redact(text)


def test_counts_of_tokens_are_no_secrets() -> None:
    assert redact('{"output_tokens": 512, "model": "m"}') == '{"output_tokens": 512, "model": "m"}'


VALUES = st.one_of(
    st.none(),
    st.text(max_size=12),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.booleans(),
    st.datetimes(),
    st.dates(),
    st.binary(max_size=6),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9),
    st.sampled_from(["[N/A]", "2026-11-01T00:00:00Z", "1.294", "NULL", "4.0", '{"a": 1}', "n[1-3]", "9223372036854775794"]),
    st.timedeltas(min_value=timedelta(-9), max_value=timedelta(9)),
    st.lists(st.integers(0, 9), max_size=2),
    st.fixed_dictionaries({"le_seconds": st.floats(), "count": st.floats()}),
)


@st.composite
def frames(draw: st.DrawFn) -> tuple[str, pl.DataFrame]:
    """A landing table, and good rows of it of which some columns are spoilt: by any value, in a column of one type."""
    name = draw(st.sampled_from(sorted(ROWS)))
    height = draw(st.integers(1, 4))
    frame = pl.DataFrame([ROWS[name]] * height)
    spoilt = draw(st.lists(st.sampled_from([column.name for column in TABLES[name].columns]), max_size=4, unique=True))
    for column in [*spoilt, "no such column"]:
        values = [draw(VALUES) for _ in range(height)]
        try:
            series = pl.Series(column, values, strict=False)
        except (TypeError, OverflowError, ValueError, pl.exceptions.PolarsError):
            continue
        frame = frame.with_columns(series)
    return name, frame


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(frames())
def test_any_frame_is_conformed_whole_and_doing_it_again_changes_nothing(case: tuple[str, pl.DataFrame]) -> None:
    name, frame = case
    table = TABLES[name]
    done = conform(table, frame, "f")
    assert done.rows.height + len(done.rejects) == frame.height
    assert done.rows.schema == {column.name: column.polars_type for column in table.columns} | {"line_number": pl.Int64}
    again = conform(table, done.rows, "f")
    assert again.rejects == []
    assert_frame_equal(again.rows, done.rows)
