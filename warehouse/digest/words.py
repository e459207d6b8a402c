"""How a digest writes numbers, reasons and names; the same in HTML, text and picture."""

from __future__ import annotations

import math
import unicodedata
from decimal import Decimal

from warehouse.first_screen import Amount

#: characters of a name that a mail shows; the whole name is in the database
NAME_LENGTH = 60
#: a name is cut before it is cleaned, so that one of megabytes costs nothing
_LONGEST_NAME = 4000
_JOINERS = "\u200c\u200d"
_FIRST_STRONG_ISOLATE, _POP_ISOLATE = "\u2068", "\u2069"

#: who holds time and money that no workload does
NOBODY = "unallocated"

#: reason of a state (the closed lists of `dim_states`) → how people say it
REASONS = {
    "down": "node down",
    "maintenance": "node in maintenance",
    "drained": "node drained",
    "lost": "GPU lost",
    "free": "nobody asked for it",
    "unrequested_share": "share of a GPU that nobody asked for",
    "stranded": "left over by MIG, or the node lacks CPU or memory for another GPU job",
    "reserved_empty": "reserved, and nobody came",
    "draining": "node is being drained",
    "position_unknown": "when it was suspended is not known, only for how long",
    "gap": "no samples",
    "stale": "samples repeat themselves",
    "not_supported": "the GPU does not report it",
    "not_permitted": "reading it is not permitted",
    "out_of_range": "readings out of range",
    "startup": "start-up, before the first work",
    "stall": "stalls between two active minutes",
    "waiting_requests": "requests wait while the GPU is idle",
}

#: (state, reason) or (state, any reason) → what one would do about it
_REMEDIES = {
    ("unallocated", "free"): "Give it to the queue, lend it to another team, or give it back.",
    ("unallocated", "unrequested_share"): "Offer the rest of the card: smaller shares, or more replicas per card.",
    ("unallocated", "stranded"): "Choose a MIG layout without a remainder, or give the node the CPU and memory it lacks.",
    ("unallocated", "reserved_empty"): "End the reservation, or let short jobs run inside it.",
    ("unallocated", "draining"): "Finish the work on the node, or return it to service.",
    ("suspended", ""): "Resume or requeue it: a suspended run keeps its GPUs.",
    ("overprovisioned", ""): "Keep fewer replicas, or let an autoscaler follow the demand.",
    ("unbalanced", ""): "Spread the work over the GPUs evenly.",
    ("pipeline_waiting", "startup"): "Shorten the start: cache images, data and compiled kernels.",
    ("pipeline_waiting", "stall"): "Feed the GPUs: more data loaders, faster storage, fewer or asynchronous checkpoints.",
    (
        "pipeline_waiting",
        "waiting_requests",
    ): "Find what keeps requests from the GPU: the router, batching, a server that hangs.",
    ("reserved_memory", ""): "Unload the model when no requests come, or share the GPU.",
    ("idle_compute", ""): "Release the GPUs when nothing runs: time limits, idle culling.",
    ("throttled", ""): "Look at cooling and power of the node.",
    ("oversized", ""): "Move it to a MIG slice or a smaller GPU.",
    ("underfilled", ""): "Larger batches, or several processes on the GPU.",
    ("commitment_unused", ""): "Run more on the committed GPUs, or commit to less.",
}

#: where a price comes from (`cost_source`) → how people say it
COST_SOURCES = {
    "billing": "billed by the provider",
    "rate_card": "from your rate card",
    "estimate": "estimated from the last bill, until the next one comes",
    "commitment": "billed, commitments that nothing used",
    "unpriced": "without a price",
}

#: why figures of an earlier day moved (kinds of `warehouse.differences`) → how a mail says it that does not say more
CAUSES = {
    "late rows": "late rows: more landed of these days",
    "first bill": "first bill: the provider's bill of these days came",
    "corrected bill": "corrected bill: the provider billed these days anew",
    "prices": "prices: a rate card, or the bill that estimates follow, changed",
    "workload rules": "workload rules: runs or workloads are named, owned or judged otherwise",
    "software": "software: its rules changed, and every day was built anew",
    "sealed": "sealed: samples expired",
}


def remedy(state: str, reason: str) -> str:
    """What one would do about a ghost; empty where nothing is known to help."""
    return _REMEDIES.get((state, reason)) or _REMEDIES.get((state, ""), "")


def reason_words(reason: str) -> str:
    """A reason in words; one that is not known yet as it is written, empty where there is none."""
    return REASONS.get(reason, reason.replace("_", " "))


def clean(name: str, length: int = NAME_LENGTH) -> str:
    """A name that came as data, fit for one line: without control and direction characters, a long one cut in its middle."""
    shown = "".join(_plain(character) for character in name[:_LONGEST_NAME])
    shown = " ".join(shown.split())
    if len(shown) <= length:
        return shown
    tail = length // 3
    return f"{shown[: length - tail - 1]}…{shown[-tail:]}"


def _plain(character: str) -> str:
    category = unicodedata.category(character)
    if character in "\t\n\v\f\r\x85" or category in ("Zs", "Zl", "Zp"):
        return " "
    # Cc, Cf (marks and overrides of direction), Cs (half characters), Co, Cn
    return "\N{REPLACEMENT CHARACTER}" if category[0] == "C" and character not in _JOINERS else character


def isolated(name: str) -> str:
    """A cleaned name for plain text, kept from turning its neighbours around where it is written from right to left."""
    if any(unicodedata.bidirectional(character) in ("R", "AL", "AN") for character in name):
        return f"{_FIRST_STRONG_ISOLATE}{name}{_POP_ISOLATE}"
    return name


def percent(ratio: float) -> str:
    return f"{ratio:.1%}"


def points(change: float) -> str:
    """A difference of two ratios, in percentage points."""
    return f"{signed(f'{change * 100:+.1f}')} points"


def signed(number: str) -> str:
    """A number that was written with its sign: a real minus, and ± where rounding leaves nothing."""
    digits = number[1:]
    if not any(digit in digits for digit in "123456789"):
        return f"±{digits}"
    return f"−{digits}" if number[0] == "-" else number


def hours(gpu_hours: float) -> str:
    """GPU-hours with one decimal, small ones with as many as they need to be told from nothing."""
    if gpu_hours != 0 and abs(gpu_hours) < 0.05:
        return "<0.05" if gpu_hours > 0 else "−<0.05"
    return f"{gpu_hours:,.1f}"


def money(amount: Amount) -> str:
    """Amounts by currency, side by side and never added; `+ ?` where a part has no price, a dash where there is nothing."""
    cleaned = Amount(amount.gpu_hours, amount.unpriced_gpu_hours)
    for currency, cost in amount.costs.items():
        cleaned.add(0.0, clean(currency, 12), cost)
    return cleaned.money()


def unit_price(price: Decimal | None) -> str | None:
    """A price per unit with four significant digits, never fewer than two decimals."""
    if price is None:
        return None
    if price == 0:
        return "0.00"
    decimals = max(2, 3 - math.floor(math.log10(abs(price))))
    return f"{price:,.{min(decimals, 6)}f}"


def relative(before: Decimal, after: Decimal) -> str:
    """A change as a share of what was before."""
    return signed(f"{(after - before) / before:+.1%}")


def count(number: int) -> str:
    return f"{number:,}"
