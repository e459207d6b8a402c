"""What a person should know about scrapes that is no reject."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from collectors.inference.growth import Grown
from collectors.inference.parse import Scrape
from collectors.inference.rows import UNKNOWN_MODEL
from collectors.inference.schema import TABLE
from collectors.parsed import Parsed


@dataclass
class Found:
    """What was noticed in the readings of all servers."""

    first: list[str] = field(default_factory=list)
    glitches: int = 0
    restarts: int = 0

    def add(self, grown: Grown, since: datetime) -> None:
        self.glitches += sum(at > since for at in grown.glitches)
        self.restarts += sum(at > since for at in grown.restarts)

    def notes(self) -> list[str]:
        found = []
        if self.first:
            more = f"; and {len(self.first) - 5} more" if len(self.first) > 5 else ""
            found.append(f"first reading, nothing to compare it with yet: {'; '.join(self.first[:5])}{more}")
        if self.glitches:
            found.append(f"{self.glitches} readings fell and came back; left out as glitches")
        if self.restarts:
            found.append(f"{self.restarts} restarts of a server between two readings; its counters count from 0")
        return found


def notes(scrape: Scrape, undecided: Mapping[tuple[str, str], datetime], parsed: Parsed) -> list[str]:
    """What a person should know about these scrapes that is no reject."""
    told = list(scrape.notes)
    rows = parsed.tables.get(TABLE, [])
    if scrape.unknown:
        told.append(f"metrics not known here, left out: {_some(sorted(scrape.unknown), 20)}")
    if undecided:
        servers = _some(sorted(server for _, server in undecided))
        told.append(f"counters of {servers} fell; whether that was a restart the next reading tells, so it is kept for that")
    uncounted = sorted({row["server"] for row in rows if row["request_count"] is None})
    if uncounted:
        told.append(f"no metric of {_some(uncounted)} counts requests")
    unnamed = sorted({row["server"] for row in rows if row["model"] == UNKNOWN_MODEL})
    if unnamed:
        told.append(f"no label names the model of {_some(unnamed)}; give it with --model NAME")
    cached = sum(row["cached_prompt_tokens"] or 0 for row in rows)
    prompt = sum(row["prompt_tokens"] or 0 for row in rows if row["cached_prompt_tokens"] is not None)
    if cached > prompt:
        told.append(
            f"{cached:,} prompt tokens from the cache of {prompt:,} in all: some versions of vLLM count the hits of a waiting "
            "request again and again (those with prompt_tokens_cached_total do not)"
        )
    return told


def _some(names: Sequence[str], limit: int = 3) -> str:
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")
