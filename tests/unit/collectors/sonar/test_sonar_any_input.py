"""Whatever stands in a file of sonar's: rows, rejects, or a failed source that says why; never another error."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.command import SourceFailedError
from collectors.sonar.parse import parse_sonar
from collectors.sonar.rows import to_rows
from collectors.sonar.snapshots import by_node
from tests.unit.collectors.sonar.test_sonar import CONFIG, SAMPLE, SYSINFO, TAGGED, line
from warehouse.landing.conform import conform
from warehouse.landing.shape import TABLES

VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8))
ANYTHING = st.recursive(
    VALUES, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3))
)
TEXTS = [
    line(7, "1000", 84, 1024) + line(8, "11", 90, minute=5),
    TAGGED.format(v="0.14.0", more=',"gpuinfo=musekib=1024|,cutil%=78|"'),
    json.dumps(SAMPLE),
    json.dumps(CONFIG),
]


def read(data: bytes) -> None:
    with suppress(SourceFailedError):
        found = parse_sonar(data, "any")
        parsed = to_rows(by_node(found.snapshots), found.machines, "c", timedelta(minutes=5))
        for table, frame in parsed.frames().items():
            conform(TABLES[table], frame, "any")


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    read(data)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(TEXTS), st.data())
def test_a_damaged_file_is_read_or_refused(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 30)))
    read((text[:start] + data.draw(st.text(alphabet='|,=\n"[]{}:-+.e%0159TZg', max_size=12)) + text[end:]).encode())


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([SAMPLE, SYSINFO, CONFIG]), st.data())
def test_json_with_anything_anywhere_in_it_is_read_or_quarantined(document: dict[str, Any], data: st.DataObject) -> None:
    copy = json.loads(json.dumps(document))
    place: Any = copy
    for _ in range(data.draw(st.integers(0, 8))):
        keys = sorted(place) if isinstance(place, dict) else list(range(len(place)))
        deeper = [key for key in keys if isinstance(place[key], dict | list) and place[key]]
        if not deeper:
            break
        place = place[data.draw(st.sampled_from(deeper))]
    keys = sorted(place) if isinstance(place, dict) else list(range(len(place)))
    place[data.draw(st.sampled_from(keys))] = data.draw(ANYTHING)
    read(json.dumps(copy).encode())
