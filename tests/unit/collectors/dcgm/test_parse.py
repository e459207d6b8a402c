from __future__ import annotations

import gzip
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.command import SourceFailedError
from collectors.dcgm.labels import Slot
from collectors.dcgm.parse import OptionMissingError, parse_scrape
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


def test_a_blank_pod_label_is_no_evidence_and_the_reading_stays() -> None:
    """A14: labels are there and empty on MIG devices."""
    readings = parse_scrape(scrape({GRAPHICS: 0.9}, SLICE | {"pod": "", "namespace": ""}).encode(), "a", at=NOON).readings
    assert [(reading.holders, reading.values[GRAPHICS]) for reading in readings] == [(frozenset(), 0.9)]


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


@pytest.mark.parametrize("data", [b"", b"# HELP only\n", b"go_goroutines 12\n", b"\x1f\x8bnot gzip"])
def test_a_text_without_dcgm_fields_is_a_failed_source(data: bytes) -> None:
    with pytest.raises(SourceFailedError, match=r"a\.prom"):
        parse_scrape(data, "a.prom", at=NOON)


def each(values: dict[str, list[float]], *labels: dict[str, str]) -> str:
    """A series per field and set of labels: the first value with the first labels, and so on."""
    return "\n".join(
        scrape({name: numbers[position] for name, numbers in values.items() if position < len(numbers)}, WHOLE | extra)
        for position, extra in enumerate(labels)
    )


PODS = [{"pod": f"p{number}", "namespace": "n", "vgpu": str(number)} for number in range(3)]
POWER, USED = "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_FB_USED"


def test_parts_for_each_pod_are_added_up_and_what_is_copied_to_each_is_not() -> None:
    """Since 4.5.3 the exporter gives utilisation and memory of each pod's processes, and all else once per pod."""
    text = each({UTIL: [30, 30, 0], USED: [1000, 500, 0], POWER: [300] * 3, SM: [0.7] * 3}, *PODS)
    scrapes = parse_scrape(text.encode(), "a", at=NOON)
    assert scrapes.readings[0].values == {UTIL: 60.0, USED: 1500.0, POWER: 300.0, SM: 0.7}
    assert (scrapes.split, scrapes.repeated) == (2, 4)


def test_copies_are_one_value_where_no_card_of_the_scrape_shows_parts() -> None:
    text = each({UTIL: [99, 99, 99], USED: [4000] * 3, POWER: [300] * 3}, *PODS)
    assert parse_scrape(text.encode(), "a", at=NOON).readings[0].values == {UTIL: 99.0, USED: 4000.0, POWER: 300.0}


def test_equal_parts_are_parts_if_another_card_shows_that_the_exporter_gives_them() -> None:
    other = [labels | {"UUID": "GPU-2", "gpu": "1"} for labels in PODS]
    equal = each({UTIL: [20, 20, 20], POWER: [300] * 3}, *PODS)
    unequal = each({UTIL: [10, 20, 30], POWER: [310] * 3}, *other)
    readings = parse_scrape(f"{equal}\n{unequal}".encode(), "a", at=NOON).readings
    assert [reading.values[UTIL] for reading in readings] == [60.0, 60.0]


def test_utilisation_split_by_user_is_added_up_whatever_the_parts_and_never_above_the_whole() -> None:
    """A mapper of users multiplies this one field only: two equal halves are halves."""
    text = each({UTIL: [25, 25], POWER: [300]}, {"USER": "a"}, {"USER": "b"})
    assert parse_scrape(text.encode(), "a", at=NOON).readings[0].values[UTIL] == 50.0
    rounded = each({UTIL: [67, 34], POWER: [300, 300]}, *PODS[:2])
    assert parse_scrape(rounded.encode(), "a", at=NOON).readings[0].values[UTIL] == 100.0


def test_links_switches_and_cpus_are_named_once_and_quarantine_nothing() -> None:
    """Every such line of an HGX or Grace node was quarantined for want of a GPU's UUID."""
    text = "\n".join(
        (
            scrape({SM: 0.5}),
            'DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT{nvswitch="nvswitch0",Hostname="node7"} 40',
            'DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL{nvlink="0",nvswitch="nvswitch0",hostname="node7"} 0',
            'DCGM_FI_DEV_GPU_UTIL{nvlink="3",gpu="0",gpu_uuid="GPU-1",device="nvidia0",hostname="node7"} 7',
            'DCGM_FI_DEV_CPU_UTIL_TOTAL{cpu="0",Hostname="node7"} 0.02',
            'DCGM_FI_DEV_CPU_UTIL_TOTAL{cpucore="0",cpu="0"} 0.02',
        )
    )
    scrapes = parse_scrape(text.encode(), "a", at=NOON)
    assert not scrapes.rejects
    assert scrapes.readings[0].values == {SM: 0.5}
    assert scrapes.others == {
        "DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT",
        "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
        UTIL,
        "DCGM_FI_DEV_CPU_UTIL_TOTAL",
    }


def test_slurm_jobs_on_every_instance_of_a_card_are_no_evidence_of_which_one_each_holds() -> None:
    def instances(*jobs: str) -> str:
        numbered = enumerate(jobs)
        return "\n".join(scrape({GRAPHICS: 0.9}, SLICE | {"GPU_I_ID": str(number), "hpc_job": job}) for number, job in numbered)

    told = parse_scrape(instances("4711", "4712", "").encode(), "a", at=NOON)
    assert [{holder.job_id for holder in reading.holders} for reading in told.readings] == [{"4711"}, {"4712"}, set()]
    copied = parse_scrape(instances("4711", "4711", "4711").encode(), "a", at=NOON)
    assert [reading.holders for reading in copied.readings] == [frozenset()] * 3
    assert copied.shared_jobs == {"GPU-1"}
    assert parse_scrape(instances("4711").encode(), "a", at=NOON).readings[0].holders


def test_counters_may_end_in_total_and_the_time_at_which_they_began_is_none_of_them() -> None:
    text = scrape({"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION_total": 5, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION_created": 1.7e9})
    values = parse_scrape(f"{text}\n# EOF\n".encode(), "a", at=NOON).readings[0].values
    assert values == {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 5.0}


def test_labels_may_be_separated_by_blanks_as_old_releases_wrote_them() -> None:
    text = f'{UTIL}{{gpu="0", UUID="GPU-1", device="nvidia0",Hostname="n"}} 85\n{SM}{{gpu="0", UUID="GPU-1",Hostname="n"}} 0.5'
    readings = parse_scrape(text.encode(), "a", at=NOON).readings
    assert [(reading.slot, reading.values) for reading in readings] == [(Slot("GPU-1", None), {UTIL: 85.0, SM: 0.5})]


def test_a_line_without_end_costs_little_time_and_is_quarantined_with_its_beginning() -> None:
    text = f'{scrape({SM: 0.5})}\n{SM}{{x="{"y" * 20_000_000}\n{scrape({UTIL: 70})}'
    scrapes = parse_scrape(text.encode(), "a.prom", at=NOON)
    assert scrapes.readings[0].values == {SM: 0.5, UTIL: 70.0}
    assert [(reject.line, reject.reason) for reject in scrapes.rejects] == [(3, "malformed")]
    assert len(scrapes.rejects[0].text) < 5000


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
