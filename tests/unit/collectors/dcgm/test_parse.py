from __future__ import annotations

import gzip
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.command import SourceFailedError
from collectors.dcgm.parse import Holder, OptionMissingError, Slot, holder_of, is_no_node, parse_scrape
from collectors.metrics.text import read_samples
from tests.unit.collectors.dcgm.scrapes import GRAPHICS, SLICE, SM, UTIL, WHOLE, scrape

NOON = datetime(2026, 11, 1, 12)


def test_a_scrape_is_read_whatever_its_line_ends_packing_and_byte_order_mark() -> None:
    text = scrape({SM: 0.5, UTIL: 70})
    plain = parse_scrape(text.encode(), "a.prom", at=NOON).readings
    assert plain[0].values == {SM: 0.5, UTIL: 70.0}
    for data in (
        (text + "\n").encode(),
        text.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + text.encode(),
        gzip.compress(text.encode()),
    ):
        assert parse_scrape(data, "a.prom", at=NOON).readings == plain


def test_an_instance_is_its_own_slot_of_its_card() -> None:
    readings = parse_scrape(scrape({GRAPHICS: 0.9}, SLICE).encode(), "a.prom", at=NOON).readings
    assert [reading.slot for reading in readings] == [Slot("GPU-1", "GPU-1/gi7")]
    labelled = parse_scrape(scrape({GRAPHICS: 0.9}, SLICE | {"GPU_I_UUID": "MIG-abc"}).encode(), "a.prom", at=NOON).readings
    assert labelled[0].slot == Slot("GPU-1", "MIG-abc")


def test_a_device_without_uuid_is_known_by_node_and_pci_address_and_without_both_it_is_quarantined() -> None:
    by_place = {"pci_bus_id": "00000000:3B:00.0", "Hostname": "node7"}
    assert parse_scrape(scrape({SM: 0.5}, by_place).encode(), "a", at=NOON).readings[0].slot.gpu_uuid == "node7/00000000:3B:00.0"
    nameless = parse_scrape(scrape({SM: 0.5}, {"gpu": "0", "Hostname": "node7"}).encode(), "a", at=NOON)
    assert not nameless.readings
    assert [(reject.line, reject.reason) for reject in nameless.rejects] == [(2, "malformed")]


def test_the_exported_pod_is_the_workload_and_the_exporters_own_pod_is_not() -> None:
    """A13: Prometheus puts the exporter's pod on the series and moves the workload's to `exported_pod`."""
    labels = {"namespace": "monitoring", "pod": "dcgm-exporter-x", "exported_namespace": "default", "exported_pod": "pod1"}
    assert holder_of(labels) == Holder("default", "pod1", None)
    # a blank `exported_pod` is not scraped at all: what is left names the exporter, who holds nothing
    assert holder_of({"namespace": "monitoring", "pod": "nvidia-dcgm-exporter-tl46n", "uid": "u-1"}) is None


def test_a_blank_pod_label_is_no_evidence_and_the_reading_stays() -> None:
    """A14: labels are there and empty on MIG devices."""
    readings = parse_scrape(scrape({GRAPHICS: 0.9}, SLICE | {"pod": "", "namespace": ""}).encode(), "a", at=NOON).readings
    assert [(reading.holders, reading.values[GRAPHICS]) for reading in readings] == [(frozenset(), 0.9)]
    assert holder_of({"exported_pod": "", "pod": "dcgm-exporter-x"}) is None


def test_a_device_reading_copied_to_each_pod_that_shares_the_card_is_one_reading() -> None:
    """A01: three labelled copies are one device fact and three holders."""
    text = "\n".join(scrape({SM: 0.714}, WHOLE | {"pod": f"p{number}", "pod_uid": f"u{number}"}) for number in range(3))
    scrapes = parse_scrape(text.encode(), "a", at=NOON)
    assert len(scrapes.readings) == 1
    assert scrapes.repeated == 2
    assert {holder.job_id for holder in scrapes.readings[0].holders} == {"u0", "u1", "u2"}


def test_the_same_series_with_another_value_is_a_second_scrape_and_is_told() -> None:
    scrapes = parse_scrape((scrape({SM: 0.5}) + "\n" + scrape({SM: 0.7})).encode(), "two.prom", at=NOON)
    assert scrapes.readings[0].values == {SM: 0.5}
    assert [(reject.file, reject.line, reject.reason) for reject in scrapes.rejects] == [("two.prom", 4, "duplicate")]


def test_a_cut_line_costs_the_line_and_not_the_scrape() -> None:
    text = scrape({SM: 0.5, UTIL: 70})[:-6]
    scrapes = parse_scrape(text.encode(), "cut.prom", at=NOON)
    assert scrapes.readings[0].values == {SM: 0.5}
    assert [(reject.file, reject.line) for reject in scrapes.rejects] == [("cut.prom", 4)]


def test_a_lines_own_time_stands_and_tells_scrapes_in_one_file_apart() -> None:
    text = "\n".join(f'{SM}{{UUID="GPU-1",Hostname="n"}} 0.5 {stamp}' for stamp in (1793534400000, 1793534460000))
    assert [reading.at for reading in parse_scrape(text.encode(), "a").readings] == [
        datetime(2026, 11, 1, 12),
        datetime(2026, 11, 1, 12, 1),
    ]
    seconds = f'{SM}{{UUID="GPU-1",Hostname="n"}} 0.5 1793534400\n# EOF\n'
    assert [reading.at for reading in parse_scrape(seconds.encode(), "a").readings] == [datetime(2026, 11, 1, 12)]


def test_without_a_time_or_a_node_the_option_that_gives_it_is_named() -> None:
    with pytest.raises(OptionMissingError, match="--at 2026-11-01"):
        parse_scrape(scrape({SM: 0.5}).encode(), "a.prom")
    with pytest.raises(OptionMissingError, match="--node NAME"):
        parse_scrape(scrape({SM: 0.5}, {"UUID": "GPU-1", "instance": "localhost:9400"}).encode(), "a.prom", at=NOON)


def test_a_cards_own_series_beside_its_instances_goes_to_each_instance_once() -> None:
    text = scrape({"DCGM_FI_DEV_POWER_USAGE": 110, UTIL: 0}, WHOLE) + "\n" + scrape({GRAPHICS: 0.9}, SLICE)
    readings = parse_scrape(text.encode(), "a", at=NOON).readings
    assert [(reading.slot.slot_uuid, dict(reading.values)) for reading in readings] == [
        ("GPU-1/gi7", {GRAPHICS: 0.9, "DCGM_FI_DEV_POWER_USAGE": 110.0})
    ]


def test_the_names_of_the_old_exporter_are_the_fields_of_today() -> None:
    text = 'dcgm_gpu_utilization{gpu="0",uuid="GPU-1",Hostname="n"} 70\ndcgm_fb_used{gpu="0",uuid="GPU-1",Hostname="n"} 5'
    assert parse_scrape(text.encode(), "a", at=NOON).readings[0].values == {UTIL: 70.0, "DCGM_FI_DEV_FB_USED": 5.0}


def test_an_xid_that_was_counted_lately_is_the_xid_and_a_lost_card_decides() -> None:
    text = "\n".join(scrape({"DCGM_EXP_XID_ERRORS_COUNT": 1}, WHOLE | {"xid": xid}) for xid in ("31", "79", "45"))
    assert parse_scrape(text.encode(), "a", at=NOON).readings[0].values == {"DCGM_FI_DEV_XID_ERRORS": 79}


@pytest.mark.parametrize(
    ("host", "expected"),
    [("nvidia-dcgm-exporter-tl46n", True), ("424773df46e0", True), ("gpu-dcgm-exporter-7d9f8-x2x4z", True), ("node7", False)],
)
def test_an_exporters_pod_is_no_node(host: str, expected: bool) -> None:
    assert is_no_node(host) is expected


@pytest.mark.parametrize("data", [b"", b"# HELP only\n", b"go_goroutines 12\n", b"\x1f\x8bnot gzip"])
def test_a_text_without_dcgm_fields_is_a_failed_source(data: bytes) -> None:
    with pytest.raises(SourceFailedError, match=r"a\.prom"):
        parse_scrape(data, "a.prom", at=NOON)


LINES = st.lists(
    st.one_of(
        st.binary(max_size=40),
        st.sampled_from(
            [SM, UTIL, "{", "}", ",", '"', "=", "\\", " ", "\n", "# EOF", 'UUID="GPU-1"', 'Hostname="n"', "1e400", "NaN"]
        ).map(str.encode),
    ),
    max_size=30,
).map(b"".join)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.binary(max_size=300), LINES, LINES.map(gzip.compress)))
def test_arbitrary_bytes_are_readings_or_rejects_or_a_failed_source(data: bytes) -> None:
    try:
        scrapes = parse_scrape(data, "a", at=NOON)
    except SourceFailedError:
        return
    assert scrapes.readings or scrapes.rejects


LABEL_TEXT = st.text(st.sampled_from('ab{}",\\ #='), max_size=6)


@given(st.lists(st.tuples(LABEL_TEXT, st.integers(0, 9)), min_size=1, max_size=6))
def test_lines_read_together_say_what_each_says_alone(lines: list[tuple[str, int]]) -> None:
    """Labels are read once per text between the braces; a value that holds braces or quotes must not mislead that."""
    texts = []
    for label, value in lines:
        escaped = label.replace("\\", "\\\\").replace('"', '\\"')
        texts.append(f'{SM}{{UUID="GPU-1",x="{escaped}"}} {value}')
    together, rejects = read_samples("\n".join(texts * 2), "a")
    assert not rejects
    assert [(sample.labels["x"], sample.value) for sample in together] == lines * 2
    assert [sample.name for sample in together] == [SM] * len(lines) * 2
