"""What the tests of one folder share: an output's text to the rows it lands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from collectors.parsed import Parsed
from collectors.slurm.join import joined
from collectors.slurm.parse import parse_output
from collectors.slurm.records import Reading

AT = datetime(2026, 11, 30, 7)


def rows_of(*texts: Any, reading: Reading | None = None, at: datetime | None = AT, cluster: str | None = "c") -> Parsed:
    """The rows that these saved outputs land together; what is no text is written as JSON."""
    data = [text if isinstance(text, str) else json.dumps(text) for text in texts]
    outputs = [parse_output(text.encode(), f"saved{place}", reading or Reading(), at) for place, text in enumerate(data)]
    return joined(outputs, cluster)[0]


def picked(parsed: Parsed, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """These columns of a table's rows, sorted."""
    rows: Sequence[Any] = parsed.tables.get(table, [])
    return sorted((tuple(row.get(column) for column in columns) for row in rows), key=repr)
