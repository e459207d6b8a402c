"""Section 4 of semantics.md: what samples say about a slot, rolled up to minutes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

from tests.reference.capacity import Device, Slot
from tests.reference.intervals import Span, common, total
from tests.reference.world import MINUTE_US, Sample, World

IDLE = 0.05  # idle_activity_ratio
STALE_MINUTES, STALE_READINGS = 5, 10
#: hardware slowdown, software thermal, hardware thermal, power brake
THROTTLE_REASONS = 0x8 | 0x20 | 0x40 | 0x80
SIGNALS = ("sm_active", "graphics_engine_active", "gpu_utilization", "none")

Key = tuple[str, str, int]  # device, slot id, start of the minute


@dataclass(frozen=True)
class Minute:
    """One slot and minute: the time it is in inventory and in service, and what the samples inside that time say."""

    present: tuple[Span, ...]
    signal: str
    covered_us: int
    idle_us: int
    active_us: int
    mean_activity: Fraction  # of the covered part
    mean_active: Fraction  # of the active part
    throttled_us: Fraction  # of the active part
    memory: Fraction | None
    memory_total: int | None

    @property
    def present_us(self) -> int:
        return total(self.present)


def roll_up(world: World, known: Mapping[str, Device], in_service: Mapping[str, Sequence[Span]]) -> dict[Key, Minute]:
    """Every minute in which a slot is in inventory and in service; stranded slots carry no samples."""
    minutes: dict[Key, Minute] = {}
    for gpu, device in known.items():
        for slot, spans in slot_spans(device, in_service[gpu]).items():
            series = [] if slot.is_stranded else _series(world, gpu, slot)
            by_minute = [_by_minute(samples) for samples in series]
            stale = [_stale_minutes(samples, inside) for samples, inside in zip(series, by_minute, strict=True)]
            for minute, present in _minutes_of(spans).items():
                choices = [
                    _choice(() if minute in frozen else samples.get(minute, ()), present)
                    for samples, frozen in zip(by_minute, stale, strict=True)
                ]
                minutes[gpu, slot.slot_id, minute] = _minute(present, _best(choices), device, slot)
    return minutes


def slot_spans(device: Device, spans: Sequence[Span]) -> dict[Slot, list[Span]]:
    """When each slot of the device is there: while its layout holds, inside `spans`."""
    result: dict[Slot, list[Span]] = {}
    for number, layout in enumerate(device.layouts):
        begin = layout.valid_from if number else -(10**20)
        end = device.layouts[number + 1].valid_from if number + 1 < len(device.layouts) else 10**20
        for slot in layout.slots:
            result[slot] = sorted(result.get(slot, []) + common(spans, [(begin, end)]))
    return result


def _series(world: World, gpu: str, slot: Slot) -> list[list[Sample]]:
    """The slot's samples by source; a reading of the device speaks for all its slots. Each is cut at the next one's start."""
    by_source: dict[tuple[str, bool], list[Sample]] = {}
    for sample in world.samples:
        if sample.gpu == gpu and sample.slot in (None, slot.slot_uuid):
            shared = sample.slot is None and slot.slot_uuid is not None
            memory = int(sample.memory * slot.fraction) if shared and sample.memory is not None else sample.memory
            memory_total = int(sample.memory_total * slot.fraction) if shared and sample.memory_total else sample.memory_total
            sample = replace(sample, memory=memory, memory_total=memory_total)
            by_source.setdefault((sample.source, sample.slot is None), []).append(sample)
    cut: list[list[Sample]] = []
    for _, samples in sorted(by_source.items()):
        samples.sort(key=lambda sample: sample.start)
        following = [sample.start for sample in samples[1:]] + [10**20]
        cut.append([replace(s, end=min(s.end, after)) for s, after in zip(samples, following, strict=True)])
    return cut


def _by_minute(samples: Sequence[Sample]) -> dict[int, list[Sample]]:
    result: dict[int, list[Sample]] = {}
    for sample in samples:
        for minute in range(sample.start - sample.start % MINUTE_US, sample.end, MINUTE_US):
            result.setdefault(minute, []).append(sample)
    return result


def _minutes_of(spans: Sequence[Span]) -> dict[int, tuple[Span, ...]]:
    result: dict[int, tuple[Span, ...]] = {}
    for start, end in spans:
        for minute in range(start - start % MINUTE_US, end, MINUTE_US):
            part = (max(start, minute), min(end, minute + MINUTE_US))
            result[minute] = (*result.get(minute, ()), part)
    return result


@dataclass(frozen=True)
class _Choice:
    """One source in one minute: its usable readings with the time each covers."""

    readings: tuple[tuple[Sample, int], ...]

    @property
    def covered_us(self) -> int:
        return sum(us for _, us in self.readings)

    @property
    def signal(self) -> str:
        """The signal of most covered time."""
        by_signal = {name: sum(us for sample, us in self.readings if sample.signal == name) for name in SIGNALS[:3]}
        return max(SIGNALS[:3], key=lambda name: (by_signal[name], -SIGNALS.index(name))) if self.readings else "none"


def _choice(samples: Sequence[Sample], present: Sequence[Span]) -> _Choice:
    covered = [
        (sample, total(common([(sample.start, sample.end)], present))) for sample in samples if sample.activity is not None
    ]
    return _Choice(tuple((sample, us) for sample, us in covered if us))


def _best(choices: Sequence[_Choice]) -> _Choice:
    """Of those that cover at least half of what the best coverer covers, the best signal; stale ones cover nothing."""
    most = max((choice.covered_us for choice in choices), default=0)
    if not most:
        return _Choice(())
    good = [choice for choice in choices if 2 * choice.covered_us >= most]
    return min(good, key=lambda choice: (SIGNALS.index(choice.signal), -choice.covered_us))


def _minute(present: tuple[Span, ...], choice: _Choice, device: Device, slot: Slot) -> Minute:
    readings = choice.readings
    covered = sum(us for _, us in readings)
    active = [(sample, us) for sample, us in readings if (sample.activity or 0) >= IDLE]
    active_us = sum(us for _, us in active)
    with_memory = [(sample, us) for sample, us in readings if sample.memory is not None]
    totals = [sample.memory_total for sample, _ in readings if sample.memory_total]
    return Minute(
        present=present,
        signal=choice.signal,
        covered_us=covered,
        idle_us=covered - active_us,
        active_us=active_us,
        mean_activity=sum((_exact(s.activity) * us for s, us in readings), Fraction(0)) / (covered or 1),
        mean_active=sum((_exact(s.activity) * us for s, us in active), Fraction(0)) / (active_us or 1),
        throttled_us=sum((_throttled_part(sample) * us for sample, us in active), Fraction(0)),
        memory=Fraction(sum((s.memory or 0) * us for s, us in with_memory), sum(us for _, us in with_memory))
        if with_memory
        else None,
        memory_total=max(totals) if totals else int(device.memory_total * slot.fraction) if device.memory_total else None,
    )


@cache
def _exact(activity: float | None) -> Fraction:
    """The decimal fraction that was read, so that 0.2 is no more than 0.20."""
    return Fraction(str(activity or 0))


def _throttled_part(sample: Sample) -> Fraction:
    """Rule 11: how far the clock is below its reference while a thermal or power-brake reason is set."""
    if not sample.reasons & THROTTLE_REASONS or sample.clock is None or not sample.clock_reference:
        return Fraction(0)
    return max(Fraction(0), 1 - Fraction(sample.clock) / Fraction(sample.clock_reference))


def _stale_minutes(samples: Sequence[Sample], by_minute: Mapping[int, Sequence[Sample]]) -> set[int]:
    """Stretches of at least 5 frozen minutes with at least 10 readings: the source serves its last values for ever."""
    starting: dict[int, list[Sample]] = {}
    for sample in samples:
        starting.setdefault(sample.start - sample.start % MINUTE_US, []).append(sample)
    stale: set[int] = set()
    stretch: list[int] = []
    for minute in [*sorted(starting), 10**20]:
        if stretch and minute != stretch[-1] + MINUTE_US:
            stretch = _judge(stretch, starting, stale)
        is_active = any((sample.activity or 0) >= IDLE for sample in by_minute.get(minute, ()))
        if _is_frozen(starting.get(minute, []), starting.get(minute - MINUTE_US, []), is_active):
            stretch.append(minute)
        else:
            stretch = _judge(stretch, starting, stale)
    return stale


def _judge(stretch: Sequence[int], starting: Mapping[int, Sequence[Sample]], stale: set[int]) -> list[int]:
    if len(stretch) >= STALE_MINUTES and sum(len(starting[minute]) for minute in stretch) >= STALE_READINGS:
        stale.update(stretch)
    return []


def _is_frozen(readings: Sequence[Sample], before: Sequence[Sample], is_active: bool) -> bool:
    """Every reading has the power of the last one of the minute before and one more of its values, and does not idle
    at a whole number of watts. A value that is missing is like no other."""
    if not readings or not before or before[-1].power is None:
        return False
    last = before[-1]
    repeats = all(
        sample.power == last.power
        and any(
            old is not None and value == old
            for value, old in (
                (sample.temperature, last.temperature),
                (sample.clock, last.clock),
                (sample.memory, last.memory),
                (sample.activity, last.activity),
            )
        )
        for sample in readings
    )
    return repeats and (last.power % 1 != 0 or is_active)
