"""Records of a request log → rows of `inference_requests`. Pure: dictionaries in, rows and rejects out."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from collectors.command import SourceFailedError
from collectors.requests.records import Record, is_told
from collectors.requests.schema import APPLICATION_TAGS, FORMATS, NO_INFERENCE, Format
from collectors.requests.values import find, to_count, to_instant, to_number, to_relative, to_status, to_text
from collectors.times import AMBIGUOUS_LOCAL_TIME, AmbiguousTimeError
from warehouse.landing.conform import MALFORMED, Reject

UNKNOWN_MODEL = "unknown"
#: a value of these that is no name is left out, and its request lands all the same
NAMES: Mapping[str, Callable[[Any], str | None]] = {
    "request_id": to_text,
    "status": to_status,
    "team": to_text,
    "application": to_text,
    "workload": to_text,
    "job_id": to_text,
    "server": to_text,
    "node": to_text,
    "adapter": to_text,
}
COUNTS = ("prompt_tokens", "cached_prompt_tokens", "output_tokens")


class OptionMissingError(SourceFailedError):
    """The log leaves out something that an option can say; the message names the option."""


@dataclass(frozen=True)
class Given:
    """What the caller says where the log does not: see the options of the command."""

    cluster: str
    model: str | None = None
    workload: str | None = None
    job_id: str | None = None
    node: str | None = None
    application: str | None = None
    team: str | None = None
    started_at: datetime | None = None
    zone: ZoneInfo | None = None


@dataclass
class Reader:
    """Turns records into rows; counts what it leaves out on purpose."""

    file: str
    given: Given
    form: Format | None = None
    formats: set[str] = field(default_factory=set)
    without_model: int = 0
    from_cache: int = 0
    no_inference: int = 0
    turned: int = 0
    unknown: int = 0
    no_names: Counter[str] = field(default_factory=Counter)
    by_names: dict[tuple[str, ...], Format] = field(default_factory=dict)

    def read(self, record: Record) -> dict[str, Any] | Reject | None:
        """The row of one record; a reject where it breaks its format; None where it is no request to a model."""
        values = record.values
        form = self.form or self._told(values)
        if form is None:
            self.unknown += 1
            return self._reject(record, "no request: neither its time nor its tokens are where a known format has them")
        self.formats.add(form.name)
        try:
            return self._row(form, record, _found(form, values))
        except AmbiguousTimeError as error:
            return Reject(self.file, record.line, AMBIGUOUS_LOCAL_TIME, str(error))
        except _FieldError as error:
            return self._reject(record, str(error))

    def _told(self, values: dict[str, Any]) -> Format | None:
        """The format of a record; that of records with the same fields was found before."""
        names = tuple(values)
        if names not in self.by_names:
            found = next((known for known in FORMATS.values() if is_told(known, values)), None)
            if found is None or found.within or len(self.by_names) > 100:
                return found  # told by what lies deeper in it
            self.by_names[names] = found
        return self.by_names[names]

    def _reject(self, record: Record, detail: str) -> Reject:
        return Reject(self.file, record.line, MALFORMED, detail)

    def _row(self, form: Format, record: Record, found: Mapping[str, Any]) -> dict[str, Any] | None:
        if str(found.get("call_type") or "") in NO_INFERENCE:
            self.no_inference += 1
            return None
        if str(found.get("cache_hit") or "").strip().lower() in ("true", "t", "1"):
            self.from_cache += 1
            return None
        row: dict[str, Any] = {name: self._name(name, found) for name in NAMES}
        row["model"] = _typed("model", to_text, found)
        row |= {name: _typed(name, to_count, found) for name in COUNTS}
        started_at = self._started_at(form, found)
        row |= {"cluster": self.given.cluster, "started_at": started_at, "line_number": record.line}
        row |= self._times(found, started_at)
        row |= _tokens(found, row)
        row["status"] = _status(form, found, row)
        row["model"] = self._model(found, row["model"])
        row["application"] = row["application"] or _application(found.get("tags")) or self.given.application
        row["team"] = row["team"] or self.given.team
        for name in ("workload", "job_id", "node"):
            row[name] = row[name] or getattr(self.given, name)
        row["request_id"] = row["request_id"] or _id_of(form, row)
        return row

    def _name(self, name: str, found: Mapping[str, Any]) -> str | None:
        value = found.get(name)
        try:
            return None if value is None else NAMES[name](value)
        except ValueError:
            self.no_names[name] += 1
            return None

    def _started_at(self, form: Format, found: Mapping[str, Any]) -> datetime:
        instant: datetime | None
        if form.relative is not None:
            if self.given.started_at is None:
                raise OptionMissingError(
                    f"{self.file}: its times count from the start of the trace; say when that was: "
                    "--started-at 2026-11-01T00:00:00Z"
                )
            start, unit = self.given.started_at, form.relative
            instant = _typed("started_at", lambda value: to_relative(value, start, unit), found)
        else:
            instant = _typed("started_at", lambda value: to_instant(value, self.given.zone), found)
        if instant is None:
            raise _FieldError("started_at: nothing in the record says when; log the time of each request beside its answer")
        return instant

    def _times(self, found: Mapping[str, Any], started_at: datetime) -> dict[str, float | None]:
        """Latency and time to first token, in ms; an end before the start says nothing."""
        ended_at = _typed("ended_at", lambda value: to_instant(value, self.given.zone), found)
        first_at = _typed("first_token_at", lambda value: to_instant(value, self.given.zone), found)
        latency = _typed("latency_ms", to_number, found)
        seconds = _typed("latency_seconds", to_number, found)
        if latency is None and seconds is not None:
            latency = seconds * 1000
        if latency is None and ended_at is not None:
            latency = (ended_at - started_at).total_seconds() * 1000
        first = _typed("first_token_ms", to_number, found)
        # LiteLLM gives the end where an answer was not streamed: then nobody saw a first token
        if first is None and first_at is not None and first_at != ended_at:
            first = (first_at - started_at).total_seconds() * 1000
        times = {"latency_ms": latency, "first_token_ms": first}
        self.turned += any(time is not None and time < 0 for time in times.values())
        return {name: None if time is not None and time < 0 else time for name, time in times.items()}

    def _model(self, found: Mapping[str, Any], model: str | None) -> str:
        provider = found.get("provider")
        if model and isinstance(provider, str) and provider:
            model = model.removeprefix(f"{provider}/") or model
        if model is None and self.given.model is None:
            self.without_model += 1
        return model or self.given.model or UNKNOWN_MODEL


class _FieldError(ValueError):
    """A field of the record is none of its kind; the message names the field and never its value."""


def _found(form: Format, values: dict[str, Any]) -> dict[str, Any]:
    """The format's fields that the record holds."""
    answer: dict[str, Any] = {}
    if form.within:
        places = ((find(values, place) if place else values) for place in form.within)
        answer = next((place for place in places if isinstance(place, dict) and place.get("usage")), {})
    found: dict[str, Any] = {}
    for name, paths in form.fields.items():
        for path in paths:
            source, inner = (answer, path.removeprefix("answer.")) if path.startswith("answer.") else (values, path)
            value = find(source, inner)
            if value is not None:
                found[name] = value
                break
    return found


def _typed(name: str, read: Callable[[Any], Any], found: Mapping[str, Any]) -> Any:
    """The field read as its kind; None where the record has none."""
    value = found.get(name)
    if value is None:
        return None
    try:
        return read(value)
    except AmbiguousTimeError:
        raise
    except (ValueError, OverflowError, ArithmeticError) as error:
        raise _FieldError(f"{name}: {error}") from None


def _tokens(found: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """Whether the prompt count holds the cached tokens: OpenAI's and vLLM's does, Anthropic's is what was read anew."""
    written = _typed("cache_written", to_count, found)
    is_anthropic = ("cache_read" in found or written is not None) and "is_openai" not in found
    prompt, output = row["prompt_tokens"], row["output_tokens"]
    total = _typed("total_tokens", to_count, found)
    if output is None and total is not None and prompt is not None and total >= prompt:
        output = total - prompt  # embeddings tell no output
    if is_anthropic and prompt is not None:
        prompt += written or 0
    includes = str(found.get("prompt_includes_cached", "")).strip().lower()
    return {
        "prompt_tokens": prompt,
        "output_tokens": output,
        "prompt_includes_cached": includes not in ("false", "f", "0") if includes else not is_anthropic,
    }


def _status(form: Format, found: Mapping[str, Any], row: Mapping[str, Any]) -> str | None:
    if form.name == "burstgpt":
        return "failure" if row["output_tokens"] == 0 else "success"  # its README: failed requests have 0 response tokens
    return "failure" if found.get("error") else row["status"]


def _application(tags: Any) -> str | None:
    """The application of tags like `app:search`; other tags are nobody's business."""
    if isinstance(tags, str):
        try:
            tags = json.loads(tags)
        except (ValueError, RecursionError):
            return None
    for tag in tags if isinstance(tags, Sequence) and not isinstance(tags, str) else ():
        name, _, value = str(tag).partition(":")
        if name.strip().lower() in APPLICATION_TAGS and value.strip():
            try:
                return to_text(value)
            except ValueError:
                return None
    return None


def _id_of(form: Format, row: Mapping[str, Any]) -> str:
    """An id for a log without ids: from what the row says and its line, so that landing the log again gives the same."""
    told = repr([row["line_number"], str(row["started_at"]), row["model"], *(row[name] for name in COUNTS)])
    return f"{form.name}-{hashlib.blake2b(told.encode(), digest_size=10).hexdigest()}"
