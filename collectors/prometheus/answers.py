"""The API's answers: bytes in, series out. Nothing here touches the network."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from collectors.command import SourceFailedError
from warehouse.landing.conform import redact

EPOCH = datetime(1970, 1, 1)
_NO_API = "is that the address of Prometheus itself? A login page or Grafana's own pages are no API"


class ApiError(SourceFailedError):
    """The API understood and refused."""

    @staticmethod
    def said_in(text: str) -> str:
        """What the beginning of an error's body says went wrong, without secrets; empty where it says nothing readable."""
        found = re.search(r'"error"\s*:\s*"((?:[^"\\]|\\.)*)', text)
        if found:
            return redact(found.group(1).replace('\\"', '"'), 200)
        return "" if text.lstrip().startswith(("<", "{")) else redact(text, 200)


@dataclass(frozen=True)
class Answer:
    data: Any
    warnings: tuple[str, ...]


@dataclass
class Series:
    """One series: its labels without the name, and its samples as (milliseconds since 1970, value) in time order."""

    name: str
    labels: Mapping[str, str]
    points: list[tuple[int, float]]

    def within(self, start_ms: int, end_ms: int) -> Series:
        """The same series with the samples in `[start_ms, end_ms)`."""
        if not self.points or (self.points[0][0] >= start_ms and self.points[-1][0] < end_ms):
            return self
        return Series(self.name, self.labels, [point for point in self.points if start_ms <= point[0] < end_ms])


def parse_answer(body: bytes, shown: str) -> Answer:
    """The `data` of a successful answer, with what the server warned of.

    Raises SourceFailedError where the body is no answer of a Prometheus API, or one cut short.
    """
    text = body.lstrip()[:200]
    if not text.startswith(b"{"):
        kind = "a web page" if text.startswith(b"<") else "no JSON"
        raise SourceFailedError(f"{shown}: answers with {kind}; {_NO_API}")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise SourceFailedError(
            f"{shown}: the answer is cut short or broken ({redact(str(error), 100)}); run this again"
        ) from None
    if not isinstance(document, dict) or document.get("status") != "success" or "data" not in document:
        said = redact(str(document.get("error") or document.get("message") or "no `data` in it"), 200)
        raise ApiError(f"{shown}: {said}; {_NO_API}")
    warnings = [*_texts(document.get("warnings")), *_texts(document.get("infos"))]
    if document.get("isPartial"):  # VictoriaMetrics, where a storage node did not answer
        warnings.append("the answer is partial: a part of the storage did not answer")
    return Answer(document["data"], tuple(redact(warning, 300) for warning in warnings))


def _texts(value: Any) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def parse_names(data: Any, shown: str) -> list[str]:
    """A list of label values."""
    if not isinstance(data, list):
        raise SourceFailedError(f"{shown}: a list of label values was expected, not {type(data).__name__}; {_NO_API}")
    return sorted({str(name) for name in data})


def parse_matrix(data: Any, shown: str) -> list[Series]:
    """The series of a range selector; native histograms, which hold no plain samples, are passed over."""
    if not isinstance(data, dict) or data.get("resultType") != "matrix":
        kind = data.get("resultType") if isinstance(data, dict) else type(data).__name__
        raise SourceFailedError(f"{shown}: a matrix of samples was expected, not {redact(str(kind), 50)}; {_NO_API}")
    try:
        return [_series(item) for item in data.get("result") or []]
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise SourceFailedError(f"{shown}: a series cannot be read ({redact(str(error), 100)})") from None


def _series(item: Mapping[str, Any]) -> Series:
    labels = {str(label): str(value) for label, value in item["metric"].items()}
    points = [(round(float(at) * 1000), float(value)) for at, value in item.get("values") or []]
    return Series(labels.pop("__name__", ""), labels, points)


def to_milliseconds(at: datetime) -> int:
    """Milliseconds since 1970 of a naive UTC instant, rounded down."""
    return (at - EPOCH) // timedelta(milliseconds=1)


def to_instant(milliseconds: int) -> datetime:
    """The naive UTC instant."""
    return EPOCH + timedelta(milliseconds=milliseconds)


def merge(parts: Sequence[Series]) -> list[Series]:
    """Parts of the same series put together, a sample of one instant once, in time order."""
    joined: dict[tuple[str, tuple[tuple[str, str], ...]], Series] = {}
    for part in parts:
        key = (part.name, tuple(sorted(part.labels.items())))
        known = joined.get(key)
        if known is None:
            joined[key] = Series(part.name, part.labels, list(part.points))
        else:
            known.points += part.points
    for series in joined.values():
        if any(later[0] <= earlier[0] for earlier, later in zip(series.points, series.points[1:], strict=False)):
            series.points = sorted(dict(reversed(series.points)).items())
    return [joined[key] for key in sorted(joined)]
