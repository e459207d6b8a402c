"""Metrics text as exporters write it: bytes in, samples with their line out, whatever state the file is in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from prometheus_client.parser import text_string_to_metric_families

from warehouse.landing.conform import MALFORMED, Reject, redact

#: the parser's time grows with the square of a line's length
LINE_LIMIT = 16_384
#: of a line that is none: looking for secrets in it takes time as well
SHOWN_CHARACTERS = 2_000
EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class Sample:
    """One line: a metric's value, and its own time where the line carries one."""

    line: int
    name: str
    labels: Mapping[str, str]
    value: float
    at: datetime | None


def read_samples(text: str, file: str) -> tuple[list[Sample], list[Reject]]:
    """Every sample line of the text, and a reject for each line that is none.

    Lines are parsed one by one, so that a cut or garbled line costs that line and not the scrape, and so that names
    stay as written (a TYPE line `counter` makes the parser append `_total`).
    """
    samples: list[Sample] = []
    rejects: list[Reject] = []
    known: dict[str, Mapping[str, str]] = {}
    # OpenMetrics ends in `# EOF` and counts its times in seconds, the older text format in milliseconds
    unit = 1000.0 if text.rstrip().endswith("# EOF") else 1.0
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        try:
            samples.append(_parse_line(line, number, unit, known))
        except (ValueError, IndexError, OverflowError, TypeError) as error:
            readable = line[:SHOWN_CHARACTERS].encode("utf-8", "replace").decode()
            detail = f"no metrics line ({redact(str(error) or 'cut or garbled', 120)})"
            rejects.append(Reject(file, number, MALFORMED, detail.encode("utf-8", "replace").decode(), redact(readable)))
    return samples, rejects


def _parse_line(line: str, number: int, unit: float, known: dict[str, Mapping[str, str]]) -> Sample:
    if len(line) > LINE_LIMIT:
        raise ValueError(f"longer than {LINE_LIMIT} characters")
    if (not line.isascii() and any("\udc80" <= character <= "\udcff" for character in line)) or "\0" in line:
        raise ValueError("not UTF-8 text")
    # a slot's labels stand on every one of its lines, and reading them is nearly all of the parser's time
    start, end = line.find("{"), line.find("}") + 1
    braces = line[start:end] if 0 < start < end and line.count("}") == 1 else ""
    kept = known.get(braces)
    text = line if kept is None else f"{line[:start]} {line[end:]}"
    for family in text_string_to_metric_families(text + "\n"):
        for name, labels, value, timestamp, *_ in family.samples:
            at = None if timestamp is None else EPOCH + timedelta(seconds=float(timestamp) * unit)
            if at is not None and not 2000 <= at.year < 2200:
                raise ValueError(f"time {at:%Y-%m-%d}: neither milliseconds nor, in OpenMetrics, seconds since 1970")
            if braces and kept is None:
                known[braces] = labels
            return Sample(number, name, labels if kept is None else kept, float(value), at)
    raise ValueError("no sample in it")
