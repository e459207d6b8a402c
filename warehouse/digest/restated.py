"""What moved in days that were mailed before: the last mail's version against the one that this mail is made of.

The comparison is `warehouse.differences`; here it is chosen what one edition is told of it. A team is told of its own lines, and
of reasons no more than their kind: what a reason names (bills, other workloads) may be another team's.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from pathlib import Path

import duckdb

from warehouse.differences import Differences, Move, NoVersionError, compare, find_file
from warehouse.differences.records import FLEET, NEW_DAYS, SHAPE, TEAM, WORKLOAD, largest_first
from warehouse.digest import records
from warehouse.digest.editions import Edition
from warehouse.home import Home
from warehouse.publication import publications

logger = logging.getLogger(__name__)

_EXPIRED = "that version has expired"
#: of the edition as a whole, of single days, of single workloads: so many movements are told
MOST_FIGURES, MOST_DAYS, MOST_WORKLOADS, MOST_CAUSES = 5, 3, 3, 6
#: what is told first of the edition as a whole
FIRST = (
    *("gpu_net_ratio", "ghost_cost", "cost", "allocation_cost", "cost_per_million_tokens", "effective_cost"),
    *("ghost_gpu_hours", "productive_gpu_hours", "held_gpu_hours", "unobserved_gpu_hours", "coverage_ratio"),
)
#: the figures that days and workloads are put in order by
_RANKED = ("ghost_cost", "cost", "allocation_cost", "ghost_gpu_hours", "productive_gpu_hours")


@dataclass(frozen=True)
class Restated:
    """The comparison as an edition is told it.

    `mail_day` is the day of the mail that was made of `publication_id`; None where none is on record and the version before this
    one takes its place. `cannot` says why nothing can be told, empty where it can. `causes` are kind and text.
    """

    publication_id: str
    mail_day: date | None
    cannot: str = ""
    days: Sequence[date] = ()
    figures: Sequence[Move] = ()
    by_day: Sequence[Move] = ()
    by_workload: Sequence[Move] = ()
    causes: Sequence[tuple[str, str]] = ()


def read_restated(
    home: Home, edition: Edition, mail_date: date, publication_id: str, workload_ids: Sequence[str]
) -> Restated | None:
    """What moved in earlier days; None where nothing did, or there is no other version. `workload_ids` are the team's."""
    last = records.last_made_of(home, str(edition), mail_date)
    mail_day, base = last or (None, _version_before(home, publication_id))
    if base is None or base == publication_id:
        return None
    try:
        before, after = (find_file(home, name) for name in (base, publication_id))
    except NoVersionError:
        return Restated(base, mail_day, _EXPIRED)
    return tell_restated(base, mail_day, before, after, edition, workload_ids)


def tell_restated(
    base: str, mail_day: date | None, before: Path, after: Path, edition: Edition, workload_ids: Sequence[str]
) -> Restated | None:
    """What an edition is told of the movements between two published files, of which `base` is the older one's name.

    None where no earlier day moved; two files that cannot be compared are told as such.
    """
    try:
        differences = _compare(_stamped(before), _stamped(after))
    except (NoVersionError, OSError, duckdb.IOException):
        # while it was read
        return Restated(base, mail_day, _EXPIRED)
    except duckdb.Error as error:
        # the mail is worth more than its comparison
        logger.warning("%s and %s cannot be compared: %s", base, after, error)
        return Restated(base, mail_day, f"the two versions cannot be compared; `python -m warehouse diff {base}` says why")
    level, member = (FLEET, "all") if edition.team is None else (TEAM, edition.team)
    restated = set(differences.restated_days)
    own = [move for move in differences.moves if move.level == level and move.member == member]
    figures = sorted((move for move in own if move.usage_date is None and move.figure in FIRST), key=_first)
    by_day = [move for move in own if move.usage_date in restated]
    if not figures or not by_day:
        return None
    days = sorted({move.usage_date for move in by_day if move.usage_date})
    workloads = [
        move
        for move in differences.of(WORKLOAD)
        if move.figure in _RANKED and (edition.team is None or move.member in workload_ids)
    ]
    told = figures[:MOST_FIGURES]
    told_days = _one_each(by_day, "usage_date", MOST_DAYS) if len(days) > 1 else []
    told_workloads = _one_each(workloads, "member", MOST_WORKLOADS)
    causes = _causes(differences, [*told, *told_days, *told_workloads], with_text=edition.team is None)
    return Restated(base, mail_day, "", days, told, told_days, told_workloads, causes)


def _first(move: Move) -> tuple[int, float]:
    return FIRST.index(move.figure), -abs(move.change)


def _one_each(moves: Iterable[Move], what: str, most: int) -> list[Move]:
    """The largest movement of each day or workload, the largest first."""
    found: dict[object, Move] = {}
    for move in largest_first(move for move in moves if move.figure in _RANKED):
        found.setdefault(getattr(move, what), move)
    return list(found.values())[:most]


def _causes(differences: Differences, told: Sequence[Move], *, with_text: bool) -> list[tuple[str, str]]:
    """The reasons of what is told; new days are none of an earlier day."""
    kinds = {kind for move in told for kind in move.why} - {NEW_DAYS, SHAPE}
    causes = [(cause.kind, cause.text if with_text else "") for cause in differences.causes if cause.kind in kinds]
    return list(dict.fromkeys(causes))[:MOST_CAUSES]


def _version_before(home: Home, publication_id: str) -> str | None:
    names = [version.name for version in publications.versions(home.published)]
    return max((name for name in names if (len(name), name) < (len(publication_id), publication_id)), default=None)


def _stamped(file: Path) -> tuple[Path, int, int]:
    found = file.stat()
    return file, found.st_size, found.st_mtime_ns


@lru_cache(maxsize=8)
def _compare(before: tuple[Path, int, int], after: tuple[Path, int, int]) -> Differences:
    """Editions of one mailing share their comparisons; a file that was written anew is another one."""
    return compare(before[0], after[0])
