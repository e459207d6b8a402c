"""Whatever stands in a file: rows, rejects, or a failed source that says why; never another error."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.parsed import to_frame
from collectors.slurm.collect import nodes_now
from collectors.slurm.parse import parse_sacct
from collectors.slurm.records import Reading, SourceFailedError
from warehouse.conform import conform
from warehouse.landing_shape import TABLES

RECORDINGS = Path(__file__).parent / "recordings"
READINGS = [Reading(), Reading("America/New_York", ","), Reading(fields=("JobIDRaw", "JobName", "State", "Start", "End"))]
TEXTS = [
    path.read_text()[:3000] for path in sorted(RECORDINGS.glob("sacct_*.txt")) if path.name != "sacct_long_fixed_width.txt"
] + [
    "v=1,JobIDRaw=7,State=RUNNING,Start=2025-05-02T14:09:52+02:00,ElapsedRaw=5\n",
    json.dumps({"data": {"attributes": {"time": "2025-05-02T14:09:52Z", "slurm_jobs": [{"job_id": 1, "sacct": {}}]}}}),
]
VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8))
ANYTHING = st.recursive(
    VALUES, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3))
)


def read(data: bytes, reading: Reading) -> None:
    with suppress(SourceFailedError):
        output = parse_sacct(data, "any", reading)
        if output.rows:
            conform(TABLES["runs"], to_frame([{**row, "cluster": "c"} for row in output.rows]), "any")


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)), st.sampled_from(READINGS))
def test_any_bytes_are_read_or_refused(data: bytes, reading: Reading) -> None:
    read(data, reading)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(TEXTS), st.data(), st.sampled_from(READINGS))
def test_a_damaged_output_is_read_or_refused(text: str, data: st.DataObject, reading: Reading) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    read(
        (text[:start] + data.draw(st.text(alphabet='|,=\n"[]{}:-+.0159TZabgpu\x1f', max_size=12)) + text[end:]).encode(), reading
    )


@settings(deadline=None)
@given(st.data())
def test_a_json_job_with_anything_in_it_is_read_or_quarantined(data: st.DataObject) -> None:
    job = json.loads((RECORDINGS / "sacct.json").read_text())["jobs"][0]
    name = data.draw(st.sampled_from(sorted(job)))
    if isinstance(job[name], dict) and data.draw(st.booleans()):
        job[name][data.draw(st.sampled_from(sorted(job[name])))] = data.draw(ANYTHING)
    else:
        job[name] = data.draw(ANYTHING)
    read(json.dumps({"jobs": [job, data.draw(ANYTHING)]}).encode(), Reading())


@given(st.text(alphabet="NodeName=abcStat[]@ +*,0159\nIDLECfgTRESReason", max_size=120).map(lambda text: f"NodeName=a {text}"))
def test_any_description_of_a_node_is_read_or_quarantined(text: str) -> None:
    nodes_now(text, datetime(2026, 11, 30))
