"""MIG profiles and what a card is split into, as far as a tool's text says it."""

from __future__ import annotations

import re

#: compute slices of a card that is split: 4 on A30 and the RTX PRO cards, 7 on the others (semantics 2)
CARD_SLICES = ((re.compile(r"\bA30\b|RTX PRO [56]000"), 4), (re.compile(r"\b(A100|A800|G?H[12]00|H800|H20|G?B[123]00)"), 7))
#: multiprocessors of the whole card, the first pattern that is found (NVIDIA's data sheets; `nvidia-smi mig -lgip`)
MULTIPROCESSORS = (
    (re.compile(r"\b(H100|H800)\b.*PCIe", re.IGNORECASE), 114),
    (re.compile(r"\bH20\b"), 78),
    (re.compile(r"\b(A100|A800)"), 108),
    (re.compile(r"\b(G?H[12]00|H800)"), 132),
    (re.compile(r"\bGB200"), 152),
    (re.compile(r"\bB200"), 148),
)
#: part of a 7-slice card's multiprocessors from which an instance has the larger number of slices that its memory
#: leaves open: 1g.20gb has 26 of 132 and 2g.20gb 32, 3g.40gb 60 and 4g.40gb 64; B200's 3g.90gb has 70 of 148, 4g.90gb 72
_LARGER = {2: (1, 2, 0.22), 4: (3, 4, 0.48)}
_PROFILE = re.compile(r"(?:\d+c\.)?((\d+)g\.\d+gb.*)")


def instance_profile(profile: str) -> str | None:
    """The GPU instance's profile: `3g.71gb` of `1c.3g.71gb`, which is a part of such an instance; None for another text."""
    match = _PROFILE.fullmatch(profile)
    return match.group(1) if match else None


def compute_slices(profile: str) -> int | None:
    """GPU-instance slices of a MIG profile: 2 of `2g.10gb`, and of `1c.2g.10gb`, a part of such an instance."""
    match = _PROFILE.fullmatch(profile)
    return int(match.group(2)) if match else None


def card_slices(model: str) -> int | None:
    """Compute slices of the whole card; None for a model that is not known to be split."""
    return next((slices for pattern, slices in CARD_SLICES if pattern.search(model)), None)


def slices_by_size(model: str, memory_share: float, multiprocessors: int | None) -> int | None:
    """Compute slices of an instance whose profile is not told, from its part of the card's memory and its multiprocessors.

    Memory comes in eighths of a 7-slice card (in quarters of a 4-slice one); two and four of them can go with two numbers
    of compute slices each, which the multiprocessors tell apart. None where that is not sure.
    """
    whole = card_slices(model)
    if whole is None or not 0 < memory_share <= 1:
        return None
    if whole == 4:
        return max(1, round(memory_share * 4))
    eighths = max(1, round(memory_share * 8))
    if eighths in (1, 8):
        return 1 if eighths == 1 else whole
    total = next((count for pattern, count in MULTIPROCESSORS if pattern.search(model)), None)
    if eighths not in _LARGER or total is None or not multiprocessors:
        return None
    smaller, larger, threshold = _LARGER[eighths]
    return larger if multiprocessors / total >= threshold else smaller
