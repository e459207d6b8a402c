"""Slurm's node states, in every spelling, as one of `node_states`.

`scontrol` writes a base state and flags (`MIXED+DRAIN`), JSON a list of them, `sinfo` a word that joins both (`draining`),
short (`drng`) or with a symbol behind it (`idle~`). Source: `node_state_string` and `node_state_string_compact` of
src/common/slurm_protocol_defs.c, and NODE STATE CODES of sinfo(1).
"""

from __future__ import annotations

import re
from collections.abc import Iterable


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: flags of a node that is not there: a cloud node that is switched off has no capacity, and is not broken either
#: (POWER is what versions before 21.08 say of one)
ABSENT = _words("""
    FUTURE FUTR UNKNOWN UNK POWER POWERED_DOWN POWERING_DOWN POWERING_UP POWER_UP POW_DN POW_UP POWER_DOWNED
""")
#: to be switched off when its jobs have ended: there as long as it has some
LEAVING = _words("POWER_DOWN")
DOWN = _words("DOWN ERROR FAIL NOT_RESPONDING NO_RESPOND INVALID_REG INVAL INVALID REBOOT_ISSUED BOOT")
MAINTENANCE = _words("MAINT MAINTENANCE")
BUSY = _words("ALLOCATED ALLOC MIXED MIX COMPLETING COMP DRAINING DRNG FAILING FAILG")
DRAIN = _words("DRAIN DRAINED DRAINING DRNG FAILING FAILG")
RESERVED = _words("RESERVED RESV")
#: in service, with or without jobs; the flags say nothing of whether it can work
IN_SERVICE = _words("""
    ALLOCATED ALLOC MIXED MIX IDLE COMPLETING COMP PLANNED PLND BLOCKED BLOCK PERFCTRS NPC CLOUD DYNAMIC_NORM DYNAMIC_FUTURE
    EXTERNAL REBOOT_REQUESTED REBOOT REBOOT_CANCEL CANCEL_REBOOT CANC_R POWER_DRAIN RES NET UNDRAIN RESUME
""")
KNOWN = ABSENT | LEAVING | DOWN | MAINTENANCE | BUSY | DRAIN | RESERVED | IN_SERVICE

#: what sinfo puts behind a state; the others: `-` planned, `!` and `@` to be switched off or rebooted, `+` completing
_SYMBOLS = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "%": "POWERING_DOWN",
    "$": "MAINT",
    "^": "REBOOT_ISSUED",
}
_NAMES = re.compile(r"[A-Z][A-Z_]*")


def flags_of(text: str) -> frozenset[str]:
    """The state's words and what its symbols stand for."""
    text = text.upper()
    return frozenset(_NAMES.findall(text)) | {meaning for symbol, meaning in _SYMBOLS.items() if symbol in text}


def node_state(text: str) -> str | None:
    """A state with its flags as one of `node_states`; None for a node that is not there. ValueError where no word is known."""
    flags = flags_of(text)
    if not flags & KNOWN:
        raise ValueError(f"{text[:40]!r} is no state of a node")
    if flags & ABSENT or (flags & LEAVING and not flags & BUSY):
        return None
    if flags & DOWN:
        return "down"
    if flags & MAINTENANCE:
        return "maintenance"
    if flags & DRAIN:
        return "draining" if flags & BUSY else "drained"
    return "reserved" if flags & RESERVED else "in_service"


def unknown_flags(states: Iterable[str]) -> set[str]:
    """Words in these states that no version known to us has."""
    return set().union(*(flags_of(state) - KNOWN for state in states))


def is_state(text: str) -> bool:
    """Whether every word of the text is one of a state."""
    flags = flags_of(text)
    return bool(flags) and flags <= KNOWN and re.fullmatch(r"[A-Za-z_]+[A-Za-z_+*~#!%$@^-]*", text.strip()) is not None
