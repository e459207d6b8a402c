"""Read long windows in bounded parts, and count what two Prometheus servers have scraped once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from collectors.http import TooMuchError
from collectors.prometheus.answers import Series, merge
from collectors.prometheus.client import Prometheus

#: samples that one answer should hold: 25 MB of JSON
PART_SAMPLES = 1_000_000
#: the first part of a window, before it is known how dense the samples are; and the least one worth asking for
FIRST_PART_MS = 300_000
LEAST_PART_MS = 15_000
#: values of one matcher: keeps a question under the length that proxies take
MATCHED_VALUES = 400
#: the labels that tell scraped addresses apart
TARGET_LABELS = ("job", "instance", "exported_job", "exported_instance")
Target = tuple[str, ...]
Replica = tuple[str, ...]
#: another replica's scrape fills a hole that is longer than so many intervals
HOLE_INTERVALS = 1.5


@dataclass
class Reader:
    """Reads through `client`; remembers by the metrics asked for how many samples a millisecond holds."""

    client: Prometheus
    replica_labels: tuple[str, ...] = ()
    part_samples: int = PART_SAMPLES
    _density: dict[str, float] = field(default_factory=dict)

    def read(self, selector: str, start_ms: int, end_ms: int, interval_ms: int) -> list[Series]:
        """The raw samples in `[start_ms, end_ms)`, each once, of one replica where several have it.

        `interval_ms` is the usual time between two samples. Raises what `Prometheus.samples` raises; TooMuchError only
        where even a few seconds are too much.
        """
        parts: list[Series] = []
        at, names = start_ms, selector.partition('",')[0]
        while at < end_ms:
            until = min(end_ms, at + self._part_ms(names))
            found, until = self._read_part(selector, names, at, until)
            parts += found
            at = until
        return one_replica(merge(parts), self.replica_labels, interval_ms)

    def _read_part(self, selector: str, names: str, start_ms: int, end_ms: int) -> tuple[list[Series], int]:
        """The samples of a part, halved until the server gives it, and where it ends."""
        while True:
            try:
                found = self.client.samples(selector, start_ms, end_ms)
            except TooMuchError:
                length = (end_ms - start_ms) // 2
                if length < LEAST_PART_MS:
                    raise
                end_ms = start_ms + length
                # what was too much now is not tried again for the next part
                self._density[names] = max(self._density.get(names, 0.0), self.part_samples / length)
                continue
            density = sum(len(series.points) for series in found) / (end_ms - start_ms)
            self._density[names] = max(self._density.get(names, 0.0), density)
            return found, end_ms

    def _part_ms(self, names: str) -> int:
        density = self._density.get(names)
        if density is None:
            return FIRST_PART_MS
        return max(LEAST_PART_MS, int(self.part_samples / density)) if density else 24 * 3_600_000


def one_replica(series: Sequence[Series], replica_labels: Sequence[str], interval_ms: int) -> list[Series]:
    """The series without the labels that tell one Prometheus of a pair from the other, each scrape counted once.

    The replica whose name comes first stands; a scrape of another is taken where the first has none of that target in the
    one and a half intervals before it. That looks back only, so that reading in parts changes nothing. Whole scrapes are
    taken or left: a label that changes is seen by one replica before the other.
    """
    if not any(label in one.labels for one in series for label in replica_labels):
        return list(series)
    scrapes: dict[Target, dict[Replica, set[int]]] = {}
    for one in series:
        target, replica = _target(one), _replica(one, replica_labels)
        scrapes.setdefault(target, {}).setdefault(replica, set()).update(at for at, _ in one.points)
    kept = {target: _kept(replicas, interval_ms) for target, replicas in scrapes.items()}
    parts = []
    for one in series:
        instants = kept[_target(one)][_replica(one, replica_labels)]
        labels = {label: value for label, value in one.labels.items() if label not in replica_labels}
        parts.append(Series(one.name, labels, [point for point in one.points if point[0] in instants]))
    return [one for one in merge(parts) if one.points]


def _kept(replicas: Mapping[Replica, set[int]], interval_ms: int) -> dict[Replica, set[int]]:
    """Which scrapes of each replica count."""
    kept: dict[Replica, set[int]] = {}
    known: list[int] = []
    for replica in sorted(replicas):
        kept[replica] = {at for at in replicas[replica] if _fills_hole(known, at, interval_ms)}
        known = sorted({*known, *kept[replica]})
    return kept


def _fills_hole(instants: Sequence[int], at: int, interval_ms: int) -> bool:
    position = bisect_right(instants, at)
    return position == 0 or at - instants[position - 1] > HOLE_INTERVALS * interval_ms


def _target(series: Series) -> Target:
    return tuple(series.labels.get(label, "") for label in TARGET_LABELS)


def _replica(series: Series, replica_labels: Sequence[str]) -> Replica:
    return tuple(series.labels.get(label, "") for label in replica_labels)


def selector(names: Iterable[str], matchers: Mapping[str, str] | None = None, more: str = "") -> str:
    """`{__name__=~"a|b",label=~"…",…}`; `matchers` maps a label to a regex, `more` holds matchers as a user wrote them."""
    parts = [f'__name__=~"{"|".join(names)}"']
    parts += [f'{label}=~"{pattern}"' for label, pattern in (matchers or {}).items()]
    return "{" + ",".join([*parts, *([more] if more else [])]) + "}"


def any_of(values: Iterable[str]) -> Iterator[str]:
    """Regexes that match the values themselves, some hundred in each."""
    listed = sorted(set(values))
    for first in range(0, len(listed), MATCHED_VALUES):
        yield "|".join(quoted(value) for value in listed[first : first + MATCHED_VALUES])


def quoted(value: str) -> str:
    """The value as a regex that matches only itself, in a PromQL string."""
    return "".join(character if character.isalnum() or character in "_-/ " else _as_class(character) for character in value)


def escaped(value: str) -> str:
    """The value in a PromQL string that is compared, not matched."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _as_class(character: str) -> str:
    return {'"': '\\"', "\\": "\\\\\\\\", "^": "\\\\^", "]": "\\\\]", "\n": "\\n"}.get(character, f"[{character}]")
