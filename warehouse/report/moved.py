"""What moved in days that the version before held: the mail's list, of the version that readers saw until this one.

The two files are compared when the version is made. The report is worth more than its comparison: whatever goes wrong there is
told in its place.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from warehouse.digest import lists, words
from warehouse.digest import page as pages
from warehouse.digest.editions import Edition
from warehouse.digest.lists import Row
from warehouse.digest.restated import Restated, tell_restated

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Moved:
    """In words: against which version, what moved (largest first), and why."""

    note: str
    rows: Sequence[Row] = ()
    why: Sequence[str] = ()


NOTHING_BEFORE = Moved("There is no version before this one to compare with.")


def read_moved(before: Path | None, after: Path) -> Moved:
    """Compare two published databases; `before` lies in the folder that is named as its version, None where there is none."""
    if before is None:
        return NOTHING_BEFORE
    name = before.parent.name
    try:
        restated = tell_restated(name, None, before, after, Edition(), ())
    except Exception as error:
        logger.warning("the report is made without a comparison with %s: %s: %s", name, type(error).__name__, error)
        restated = Restated(name, None, f"the two versions cannot be compared ({type(error).__name__})")
    if restated is None:
        return Moved(f"Since the publication before, {words.clean(name)}, no figure of an earlier day moved.")
    return Moved(pages.say_restated_note(restated), lists.say_restated(restated), lists.say_causes(restated.causes))
