"""Chance without memory: a number that follows from what it is for, in whatever order and pieces it is asked for.

So the hour of a fleet that is landed and the same hour that is written as scrapes hold the same readings.
"""

from __future__ import annotations

import hashlib
import random
from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def key_of(*parts: object) -> int:
    """64 bits that follow from the parts."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest())


def dice(*parts: object) -> random.Random:
    """A sequence of chances for one purpose."""
    return random.Random(key_of(*parts))


def words(keys: npt.NDArray[Any] | int, places: npt.NDArray[Any]) -> Words:
    """64 even bits for each key and place, broadcast (splitmix64: Steele, Lea and Flood, OOPSLA 2014)."""
    with np.errstate(over="ignore"):
        mixed: Words = np.asarray(keys, np.uint64) + (places.astype(np.uint64) + np.uint64(1)) * _GOLDEN
        mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
        mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
        return mixed ^ (mixed >> np.uint64(31))


def part(mixed: Words, number: int) -> npt.NDArray[np.float64]:
    """The 16-bit part `number` (0 to 3) of each word as a number in [0, 1)."""
    bits = (mixed >> np.uint64(16 * number)) & np.uint64(0xFFFF)
    return bits.astype(np.float64) / 65536.0


def unit(keys: npt.NDArray[Any] | int, places: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """A number in [0, 1) for each key and place."""
    return (words(keys, places) >> np.uint64(11)).astype(np.float64) / float(1 << 53)
