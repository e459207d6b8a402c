"""How long a sample stands for, told from the samples' own times, whatever part of them was read."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median_low

#: readings in this time before one tell its interval; two and a half times an interval of two minutes fit into it
LOOK_BACK_MS = 360_000
#: the last gaps that count, and the least that tell anything
GAPS, LEAST_GAPS = 9, 3


def look_back_ms(interval_ms: int) -> int:
    """How far before a window reading begins, so that its first readings have those before them."""
    return max(LOOK_BACK_MS, 4 * interval_ms)


def look_ahead_ms(interval_ms: int) -> int:
    """How far behind a window reading goes on: the reading after a counter's fall tells a restart from a glitch."""
    return 3 * interval_ms


def usual_interval_ms(series: Iterable[Sequence[int]]) -> int | None:
    """The usual time between two samples: the median over the series of their medians; None where none has two."""
    medians = [median_low(later - earlier for earlier, later in pairwise(times)) for times in series if len(times) > 1]
    return rounded(median_low(medians)) if medians else None


def intervals_ms(times: Sequence[int], usual_ms: int) -> list[int]:
    """The nominal interval at each of the times (sorted): the median of the gaps shortly before it, else `usual_ms`.

    Only what lies in the look-back before a time speaks for it, so that it comes out the same however the window was cut.
    """
    reach = look_back_ms(usual_ms)
    gaps: deque[tuple[int, int]] = deque(maxlen=GAPS)
    found = []
    for position, at in enumerate(times):
        if position:
            gaps.append((times[position - 1], at - times[position - 1]))
        while gaps and gaps[0][0] < at - reach:
            gaps.popleft()
        found.append(rounded(median_low(gap for _, gap in gaps)) if len(gaps) >= LEAST_GAPS else usual_ms)
    return found


def rounded(interval_ms: int) -> int:
    """The interval without the jitter of a scrape: a whole second, below that a twentieth of one."""
    step = 1000 if interval_ms >= 950 else 50
    return max(step, (interval_ms + step // 2) // step * step)
