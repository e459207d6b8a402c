"""Bills as nobody should deliver them: each ends in rows, rejects or one error that names the file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collectors.billing.client import read_bill
from collectors.billing.collect import billing
from collectors.command import SourceFailedError
from tests.unit.collectors.billing import test_azure, test_cur, test_gcp, test_oci
from tests.unit.collectors.billing.bills import LINE, bill, read, save, table
from warehouse.landing.conform import conform
from warehouse.landing.shape import TABLES

#: a good bill of every format: what the tests here damage
BILLS = {
    "focus.csv": bill({}, {"BilledCost": "-1", "Tags": '{"team": "a"}'}),
    "cur.csv": table(test_cur.LINE, test_cur.PLAN_FEE, test_cur.COVERED),
    "azure.csv": table(test_azure.LINE, test_azure.COVERED),
    "oci.csv": table(test_oci.LINE, test_oci.LINE),
    "gcp.json": json.dumps(test_gcp.LINE) + "\n" + json.dumps({**test_gcp.LINE, "cost": "-1"}) + "\n",
}
BOTH = pytest.mark.parametrize("name", list(BILLS))


def count(path: Path) -> tuple[int, int]:
    """Rows that land and rows refused, by the parser and by the landing shape."""
    parsed = read_bill(path)
    checked = conform(
        TABLES["billing_lines"],
        parsed.frame.with_columns(pl.lit("d").alias("delivery_id"), pl.lit("2026-11-02").alias("delivered_at")),
        path.name,
    )
    return checked.rows.height, len(parsed.rejects) + len(checked.rejects)


@BOTH
@pytest.mark.parametrize("form", ["gzip", "bom", "utf-16", "crlf", "no last line end"])
def test_every_packing_is_the_same_bill(tmp_path: Path, name: str, form: str) -> None:
    text = BILLS[name]
    data = {
        "gzip": gzip.compress(text.encode()),
        "bom": b"\xef\xbb\xbf" + text.encode(),
        "utf-16": text.encode("utf-16"),
        "crlf": text.replace("\r\n", "\n").replace("\n", "\r\n").encode(),
        "no last line end": text.rstrip().encode(),
    }[form]
    assert count(save(tmp_path, name, data)) == count(save(tmp_path, f"plain-{name}", text))


@BOTH
def test_columns_in_another_order_are_the_same_bill(tmp_path: Path, name: str) -> None:
    if name.endswith(".json"):
        swapped = "".join(json.dumps(dict(reversed(json.loads(line).items()))) + "\n" for line in BILLS[name].splitlines())
    else:
        import csv
        import io

        swapped = table(*(dict(reversed(row.items())) for row in csv.DictReader(io.StringIO(BILLS[name]))))
    frames = [read_bill(save(tmp_path, f"{at}-{name}", text)).frame for at, text in enumerate((BILLS[name], swapped))]
    assert frames[0].drop("tags", strict=False).equals(frames[1].drop("tags", strict=False))


@BOTH
def test_a_header_alone_is_no_bill_and_nothing_lands(home: Path, tmp_path: Path, name: str) -> None:
    head = BILLS[name].splitlines()[0] + "\n" if name.endswith(".csv") else "\n"
    result = CliRunner().invoke(billing, [str(save(tmp_path, name, head))])
    assert result.exit_code == 1
    assert name in result.output
    assert not (home / "raw/billing/billing_lines").exists()


@BOTH
def test_gzip_that_ends_early_lands_nothing(home: Path, tmp_path: Path, name: str) -> None:
    """The lines before the break would have replaced the whole delivery before."""
    packed = gzip.compress((BILLS[name] * 50).encode())
    result = CliRunner().invoke(billing, [str(save(tmp_path, name, packed[:-10]))])
    assert result.exit_code == 1
    assert "cannot be read to its end" in result.output


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 100, b"PK\x03\x04rest", b"PAR1rest", b"\x1f\x8brest", b"[1, 2]", b"{}", b"[", b"{"]
)
def test_what_is_no_bill_is_an_error_with_the_files_name(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(SourceFailedError, match=r"any\.csv"):
        read_bill(save(tmp_path, "any.csv", data))


def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    for begin in (b"", b'{"cost": "', BILLS["cur.csv"].encode()):
        path = tmp_path / "endless.csv.gz"
        with gzip.open(path, "wb", compresslevel=1) as file:
            file.write(begin)
            for _ in range(80):
                file.write(b"x" * 2**20)
        with pytest.raises(SourceFailedError, match="a line of more than 64 MiB"):
            read_bill(path)


def test_an_unclosed_quote_costs_its_line_and_is_told(tmp_path: Path) -> None:
    text = bill({}) + bill({"ChargeDescription": "x"}).splitlines()[1].replace("Usage", '"Usage', 1) + "\n"
    rows, refused = count(save(tmp_path, "a.csv", text))
    assert (rows, refused) == (1, 1)


def test_lines_that_all_leave_the_last_columns_out_are_filled_up_and_one_that_alone_does_is_refused() -> None:
    """Every line of a bill had a field less than its header, and none landed."""
    head, line = bill({"InvoiceId": "", "SkuId": ""}).splitlines()
    short = line.removesuffix(",")
    parsed = read("\n".join([head, short, short, line, short.rsplit(",", 3)[0]]))
    assert parsed.frame["line_number"].to_list() == [2, 3, 4]
    assert [(reject.line, reject.detail) for reject in parsed.rejects] == [(5, "9 fields where the header names 13")]
    assert read("\n".join([head, line, short])).frame["line_number"].to_list() == [2]


def test_text_in_another_encoding_is_refused_line_by_line(tmp_path: Path) -> None:
    data = bill({}, {"ResourceId": "Größe"}, {}).encode("latin-1")
    parsed = read_bill(save(tmp_path, "a.csv", data))
    assert parsed.frame["line_number"].to_list() == [2, 4]
    assert [(reject.line, reject.detail) for reject in parsed.rejects] == [(3, "not UTF-8 text")]


@pytest.mark.parametrize("amount", ["1e999999999", "-1e-999999999", "NaN", "Infinity", "1_000", "1,5", "0x10", "--1", "9" * 40])
def test_an_amount_that_is_none_refuses_its_line_in_every_format(tmp_path: Path, amount: str) -> None:
    columns = {"focus.csv": "BilledCost", "cur.csv": "line_item_unblended_cost", "azure.csv": "Cost", "oci.csv": "cost/myCost"}
    lines = {"focus.csv": LINE, "cur.csv": test_cur.LINE, "azure.csv": test_azure.LINE, "oci.csv": test_oci.LINE}
    for name, column in columns.items():
        rows, refused = count(save(tmp_path, name, table(lines[name], {**lines[name], column: amount})))
        assert rows + refused == 2, name
        assert refused == (0 if amount == "-1e-999999999" else 1), name


def test_a_parquet_time_that_python_has_none_for_refuses_its_line(tmp_path: Path) -> None:
    start = pl.Series([0, 2**62]).cast(pl.Datetime("us"))
    frame = pl.DataFrame({name: [value] * 2 for name, value in LINE.items()}).with_columns(start.alias("ChargePeriodStart"))
    frame.write_parquet(tmp_path / "a.parquet")
    assert count(tmp_path / "a.parquet") == (1, 1)


INSERTED = [b'"', b",", b"\n", b"\r", b"\0", b"{", b"NULL", b"9" * 50, b"\xff", b"1e99"]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(BILLS)), st.data())
def test_a_damaged_bill_lands_refuses_or_fails_and_loses_nothing(tmp_path: Path, name: str, data: st.DataObject) -> None:
    text = bytearray(BILLS[name].encode())
    begin = BILLS[name].index("\n") + 1 if name.endswith(".csv") else 0
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(text) - 1))
        kind = data.draw(st.sampled_from(["change", "cut", "insert"]))
        if kind == "change":
            text[at] = data.draw(st.integers(0, 255))
        elif kind == "insert":
            text[at:at] = data.draw(
                st.sampled_from([b'"', b",", b"\n", b"\r", b"\0", b"{", b"NULL", b"9" * 50, b"\xff", b"1e99"])
            )
        elif at >= begin:
            del text[at : at + data.draw(st.integers(1, 20))]
    try:
        rows, refused = count(save(tmp_path, name, bytes(text)))
    except SourceFailedError:
        return
    assert rows + refused > 0 or not bytes(text[begin:]).strip()
