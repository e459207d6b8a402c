"""One metrics text of an inference server → what its counters and gauges read at that instant, per server and model."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from collectors.command import SourceFailedError
from collectors.files import decode
from collectors.inference.names import Name, is_nim, read_name
from collectors.inference.schema import (
    ADAPTER_LABELS,
    BLOCK_POOLS,
    BREAKDOWN_LABELS,
    CACHE_CONFIG,
    HITS_IN_BLOCKS,
    MODEL_LABELS,
    NEEDED,
    REPEATED_LABELS,
    TRT_LLM_BLOCKS,
)
from collectors.metrics.text import EPOCH, Sample, read_samples
from warehouse.landing.conform import MALFORMED, Reject

#: what Prometheus calls its target: host:port
_TARGET = re.compile(r"\S+:\d+")
_START = "process_start_time_seconds"
_BLOCKS_IN_HELP = re.compile(r"(?m)^# HELP \S*gpu_prefix_cache_hits(_total)? .*\bblocks\b")


class OptionMissingError(SourceFailedError):
    """The text leaves out something that an option can say; the message names the option."""


@dataclass(frozen=True)
class Series:
    """One counter, gauge or bucket. `model` is None where the text names none; `labels` are those that tell series apart."""

    metric: str
    part: str
    model: str | None
    adapter: str | None
    labels: tuple[tuple[str, str], ...]

    def label(self, name: str) -> str:
        return next((value for key, value in self.labels if key == name), "")


@dataclass(frozen=True)
class Reading:
    """One server at one instant (naive UTC). `started_at`: when its process, or the first of its counters, began."""

    server: str
    at: datetime
    values: Mapping[Series, float]
    started_at: datetime | None = None
    namespace: str | None = None
    #: the metric that stood last in the text: what follows may have been cut off
    last_metric: str = ""
    file: str = ""
    line: int | None = None


@dataclass
class Scrape:
    """What one text held."""

    readings: list[Reading] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    #: names with a server's prefix that the tables do not have
    unknown: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)


def parse_scrape(data: bytes, file: str, server: str, at: datetime | None) -> Scrape:
    """The readings in one metrics text. A line's own time stands before `at`; a label `instance` (a federated text) before
    `server`.

    Raises SourceFailedError where the text holds no metric of an inference server, OptionMissingError where nothing tells
    its time.
    """
    text = decode(data, file)
    samples, rejects = read_samples(text, file)
    if at is None and any(sample.at is None for sample in samples):
        raise OptionMissingError(
            f"{file}: a scrape does not carry its time; give it with --at 2026-11-01T00:00:00Z (once per file, in their order), "
            "or name the file by it: 2026-11-01T00-00-00Z.prom"
        )
    scrape = to_readings(samples, file, server, at, hits_in_blocks=_BLOCKS_IN_HELP.search(text) is not None)
    scrape.rejects[:0] = rejects
    if not scrape.readings:
        found = f"{len(samples)} samples of other metrics" if samples else "no metrics text"
        raise SourceFailedError(
            f"{file}: no metric of vLLM, SGLang, TGI, Triton, TensorRT-LLM, NIM, llama.cpp or TEI in it ({found}); is it the "
            "server's /metrics, and are its metrics switched on?"
        )
    return scrape


def to_readings(
    samples: Sequence[Sample], file: str, server: str, at: datetime | None, *, hits_in_blocks: bool = False
) -> Scrape:
    """The readings in samples that were read already; those of other programs are passed over.

    `hits_in_blocks`: the server counts prefix-cache hits in blocks (the first versions of vLLM V1), so they become tokens here.
    """
    scrape = Scrape()
    nim = is_nim(sample.name for sample in samples)
    builders: dict[str, _Builder] = {}
    for sample in samples:
        name = read_name(sample.name, nim)
        instance = sample.labels.get("instance", "")
        instance = instance if _TARGET.fullmatch(instance) else server
        if name is None:
            if sample.name.endswith(_START):
                builders.setdefault(instance, _Builder(instance, file)).starts.append((sample.at, sample.value))
            continue
        if not name.is_known:
            scrape.unknown.add(sample.name if name.part == "value" else sample.name.removesuffix(f"_{name.part}"))
            continue
        reject = builders.setdefault(instance, _Builder(instance, file)).add(name, sample, at)
        if reject:
            scrape.rejects.append(reject)
    for builder in builders.values():
        if hits_in_blocks:
            scrape.notes += builder.hits_to_tokens()
        scrape.readings += builder.finish(at)
    return scrape


class _Builder:
    """Collects the series of one server; a text that holds several instants makes several readings."""

    def __init__(self, server: str, file: str) -> None:
        self.server, self.file = server, file
        self.series: dict[datetime | None, dict[Series, float]] = {}
        self.starts: list[tuple[datetime | None, float]] = []
        self.created: list[float] = []
        self.namespace: str | None = None
        self.last_metric, self.line = "", 0

    def add(self, name: Name, sample: Sample, at: datetime | None) -> Reject | None:
        self.last_metric, self.line = name.metric, self.line or sample.line
        if name.metric not in NEEDED or "quantile" in sample.labels:
            return None
        if name.part == "created":
            self.created.append(sample.value)
            return None
        if math.isnan(sample.value) or any(sample.labels.get(label) for label in BREAKDOWN_LABELS):
            return None
        if sample.value < 0 or math.isinf(sample.value):
            return Reject(self.file, sample.line, MALFORMED, f"{sample.name} reads {sample.value:g}", sample.name)
        try:
            series = _series(name, sample.labels)
        except ValueError as error:
            return Reject(self.file, sample.line, MALFORMED, f"{sample.name}: {error}", sample.name)
        self.namespace = self.namespace or sample.labels.get("namespace") or None
        values = self.series.setdefault(sample.at or at, {})
        # ranks of one model tell the same; where they were read at different moments the latest is the highest
        values[series] = max(sample.value, values.get(series, 0.0))
        return None

    def hits_to_tokens(self) -> list[str]:
        """Turn hits in blocks into tokens; without the size of a block they say nothing and are left out."""
        sizes = {_number(series.label("block_size")) for values in self.series.values() for series in values}
        size = next((size for size in sizes if size), None)
        found = False
        for at, values in self.series.items():
            hits = {series for series in values if series.metric == HITS_IN_BLOCKS}
            found = found or bool(hits)
            self.series[at] = {
                series: value * (size or 0) if series in hits else value
                for series, value in values.items()
                if size or series not in hits
            }
        lost = f"{self.server}: prefix-cache hits are counted in blocks, and no cache_config_info says how large one is; left out"
        return [lost] if found and not size else []

    def finish(self, at: datetime | None) -> list[Reading]:
        instants = sorted(instant for instant in self.series if instant is not None)
        # a federated text stamps each series with its own scrape; only a series that comes twice tells several readings
        counts: dict[Series, int] = {}
        for values in self.series.values():
            for series in values:
                counts[series] = counts.get(series, 0) + 1
        if len(instants) > 1 and max(counts.values()) == 1:
            merged = {series: value for values in self.series.values() for series, value in values.items()}
            self.series = {instants[-1]: merged}
        return [
            Reading(
                self.server,
                instant,
                _with_pools(_with_model(values)),
                self._started(instant),
                self.namespace,
                self.last_metric,
                self.file,
                self.line,
            )
            for instant, values in sorted(self.series.items(), key=lambda item: item[0] or EPOCH)
            if instant is not None and values
        ]

    def _started(self, at: datetime) -> datetime | None:
        """The process's start as of `at`; without one the oldest `_created` of its counters."""
        own = [value for instant, value in self.starts if instant is None or instant <= at]
        found = _instant(max(own)) if own else _instant(min(self.created)) if self.created else None
        return found if found is not None and found <= at + timedelta(seconds=1) else None


def _series(name: Name, labels: Mapping[str, str]) -> Series:
    model = next((labels[label] for label in MODEL_LABELS if labels.get(label)), None)
    adapter = next((labels[label] for label in ADAPTER_LABELS if labels.get(label)), None)
    own: Iterable[tuple[str, str]] = labels.items()
    if name.metric == CACHE_CONFIG:
        kept = ("engine", "block_size", "num_gpu_blocks", "kv_cache_size_tokens")
        own = ((key, value) for key, value in own if key in kept)
    left_out = {*MODEL_LABELS, *ADAPTER_LABELS, *REPEATED_LABELS, *BREAKDOWN_LABELS}
    told = {key: value for key, value in own if value and key not in left_out}
    if "le" in told:
        told["le"] = repr(float(told["le"]))  # 5 in one format, 5.0 in the other
        if told["le"] == "nan":
            raise ValueError("a bucket without a bound")
    elif name.part == "bucket":
        raise ValueError("a bucket without a bound")
    return Series(name.metric, name.part, model, adapter, tuple(sorted(told.items())))


def _with_model(values: Mapping[Series, float]) -> dict[Series, float]:
    """Series without a model belong to the only one there is."""
    models = {series.model for series in values} - {None}
    if len(models) != 1:
        return dict(values)
    (model,) = models
    return {replace(series, model=model): value for series, value in values.items()}


def _with_pools(values: dict[Series, float]) -> dict[Series, float]:
    """Adds each engine's KV pool in tokens, and what share of it is used where only blocks are told."""
    for series in [series for series in values if series.metric == CACHE_CONFIG]:
        blocks, size = _number(series.label("num_gpu_blocks")), _number(series.label("block_size"))
        # hybrid models keep several groups of blocks per token, so a size in tokens counts before blocks × size
        tokens = _number(series.label("kv_cache_size_tokens")) or (blocks and size and blocks * size)
        if tokens:
            values[replace(series, metric="any:kv_tokens", labels=(("engine", series.label("engine")),))] = tokens
    for most, each in BLOCK_POOLS:
        for series in [series for series in values if series.metric == most]:
            values[replace(series, metric="any:kv_tokens")] = values[series] * values.get(replace(series, metric=each), 0.0)
    for series in [
        series for series in values if series.metric == TRT_LLM_BLOCKS and series.label("kv_cache_block_type") == "max"
    ]:
        kinds = {kind: replace(series, labels=_relabelled(series, kind)) for kind in ("used", "tokens_per", "fraction")}
        if kinds["tokens_per"] in values:
            values[replace(series, metric="any:kv_tokens")] = values[series] * values[kinds["tokens_per"]]
        if kinds["used"] in values and values[series] > 0:
            values.setdefault(kinds["fraction"], values[kinds["used"]] / values[series])
    return values


def _relabelled(series: Series, kind: str) -> tuple[tuple[str, str], ...]:
    return tuple((key, kind if key == "kv_cache_block_type" else value) for key, value in series.labels)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 < number < math.inf else None


def _instant(seconds: float) -> datetime | None:
    return EPOCH + timedelta(seconds=seconds) if 946_684_800 <= seconds < 7_258_118_400 else None
