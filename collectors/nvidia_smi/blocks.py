"""A block of a file: what one call of the tool printed, or a document in it. Each kind knows its first line and its own lines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol
from zoneinfo import ZoneInfo

from collectors.nvidia_smi.records import Found
from collectors.times import AMBIGUOUS_LOCAL_TIME, AmbiguousTimeError
from warehouse.landing.conform import MALFORMED, Reject, redact

#: a document (XML, JSON, one `nvidia-smi -q`) larger than this is none
DOCUMENT_LIMIT = 64 << 20


@dataclass(frozen=True)
class Reading:
    """How a file is to be read: its name in messages, and the zone of local times (None: UTC).

    A first pass (`is_survey`) asks when and of which GPU the rows are, and leaves out the rest of them.
    """

    file: str
    zone: ZoneInfo | None = None
    is_survey: bool = False

    def reject(self, line: int, problem: Exception | str, text: str = "") -> Reject:
        """The reject of a line; a local time that two instants share has a reason of its own."""
        reason = AMBIGUOUS_LOCAL_TIME if isinstance(problem, AmbiguousTimeError) else MALFORMED
        return Reject(self.file, line, reason, str(problem), redact(text[:2000]))


class Block(Protocol):
    """Reads lines until one is not its own."""

    def feed(self, line: int, text: str) -> Iterable[Found] | None:
        """What the line completes; None where the block has ended before it."""

    def finish(self) -> Iterable[Found]:
        """What is left when the block, or the file, ends."""
