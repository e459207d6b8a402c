"""Whatever stands in a file: rows, rejects, or a failed source that says why; never another error."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click import UsageError
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.slurm.collect import nodes_now
from collectors.slurm.join import joined
from collectors.slurm.parse import parse_output
from collectors.slurm.records import Reading, SourceFailedError
from collectors.slurm.slices import parse_rules
from tests.unit.collectors.slurm import test_slurm_controller, test_slurm_events, test_slurm_sinfo
from warehouse.landing.conform import conform
from warehouse.landing.shape import TABLES

RECORDINGS = Path(__file__).parent / "recordings"
AT = datetime(2026, 11, 30)
READINGS = [
    Reading(),
    Reading("America/New_York", ","),
    Reading(fields=("JobIDRaw", "JobName", "State", "Start", "End")),
    Reading(fields=("NODELIST", "STATE"), mig=parse_rules(["accel=1g.5gb"])),
]
TEXTS = [
    path.read_text()[:3000] for path in sorted(RECORDINGS.glob("sacct_*.txt")) if path.name != "sacct_long_fixed_width.txt"
] + [
    "v=1,JobIDRaw=7,State=RUNNING,Start=2025-05-02T14:09:52+02:00,ElapsedRaw=5\n",
    json.dumps({"data": {"attributes": {"time": "2025-05-02T14:09:52Z", "slurm_jobs": [{"job_id": 1, "sacct": {}}]}}}),
    test_slurm_controller.JOB,
    test_slurm_sinfo.LONG,
    "bigmem-1,c1-[5,9-10]|mixed|\ngpu-2|mixed+drain|\n",
    test_slurm_events.DEFAULT,
    (RECORDINGS / "scontrol_nodes.txt").read_text(),
    "PartitionName=a\n   Nodes=n[1-2]\n   State=UP\n",
]
DOCUMENTS: list[dict[str, Any]] = [
    {"jobs": json.loads((RECORDINGS / "sacct.json").read_text())["jobs"][:2]},
    {"jobs": [test_slurm_controller.PLAIN, test_slurm_controller.NAMED], "last_update": 1796020800},
    {"nodes": [test_slurm_sinfo.PLAIN, test_slurm_sinfo.NESTED], "partitions": [{"name": "a", "nodes": "gpu[1-2]"}]},
    {"sinfo": [{"nodes": {"nodes": ["n1"]}, "node": {"state": ["IDLE"]}, "cpus": {"maximum": 4}, "gres": {"total": "gpu:1"}}]},
    {
        "data": {
            "attributes": {"time": "2025-05-02T14:09:52Z", "nodes": [{"names": ["n1"], "states": ["IDLE"]}], "partitions": []}
        }
    },
]
VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8))
ANYTHING = st.recursive(
    VALUES, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3))
)


def read(data: bytes, reading: Reading) -> None:
    with suppress(SourceFailedError, UsageError):
        parsed, _ = joined([parse_output(data, "any", reading, AT)], "c")
        for table, frame in parsed.frames().items():
            conform(TABLES[table], frame, "any")


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)), st.sampled_from(READINGS))
def test_any_bytes_are_read_or_refused(data: bytes, reading: Reading) -> None:
    read(data, reading)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(TEXTS), st.data(), st.sampled_from(READINGS))
def test_a_damaged_output_is_read_or_refused(text: str, data: st.DataObject, reading: Reading) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    damage = data.draw(st.text(alphabet='|,=\n"[]{}()/:-+*~.0159TZabgpuIDX\x1f', max_size=12))
    read((text[:start] + damage + text[end:]).encode(), reading)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(DOCUMENTS), st.data())
def test_json_with_anything_anywhere_in_it_is_read_or_quarantined(document: dict[str, Any], data: st.DataObject) -> None:
    copy = json.loads(json.dumps(document))
    place: Any = copy
    for _ in range(data.draw(st.integers(0, 5))):
        keys = sorted(place) if isinstance(place, dict) else list(range(len(place)))
        deeper = [key for key in keys if isinstance(place[key], dict | list) and place[key]]
        if not deeper:
            break
        place = place[data.draw(st.sampled_from(deeper))]
    keys = sorted(place) if isinstance(place, dict) else list(range(len(place)))
    place[data.draw(st.sampled_from(keys))] = data.draw(ANYTHING)
    read(json.dumps(copy).encode(), READINGS[0])


@given(st.text(alphabet="NodeName=abcStat[]@ +*,0159\nIDLECfgTRESReason", max_size=120).map(lambda text: f"NodeName=a {text}"))
def test_any_description_of_a_node_is_read_or_quarantined(text: str) -> None:
    nodes_now(text, AT)


@pytest.mark.parametrize("text", TEXTS + [json.dumps(document) for document in DOCUMENTS])
def test_every_form_may_be_packed_marked_and_come_from_windows(text: str) -> None:
    """gzip, a byte-order mark, UTF-16, CRLF: the same rows."""
    plain = joined([parse_output(text.encode(), "any", Reading(), AT)], "c")[0].tables
    crlf = text.replace("\n", "\r\n")

    for data in (gzip.compress(text.encode()), b"\xef\xbb\xbf" + text.encode(), text.encode("utf-16"), crlf.encode()):
        assert joined([parse_output(data, "any", Reading(), AT)], "c")[0].tables == plain


@pytest.mark.parametrize(
    "data", [b"", b"\n \n", b"\x00\x01\x02\x03" * 400, b"PK\x03\x04" + bytes(500), gzip.compress(b"x", mtime=0)[:9]]
)
def test_what_is_no_output_of_slurm_is_refused_with_its_name(data: bytes) -> None:
    with pytest.raises(SourceFailedError, match=r"^any: "):
        parse_output(data, "any", Reading(), AT)
