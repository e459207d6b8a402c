"""Which numbers moved between two published versions, by how much, and why.

`compare` reads two published files and says it as data (`records.Differences`); `python -m warehouse diff` prints that, and the
day's mail quotes it.
"""

from warehouse.differences.compare import compare
from warehouse.differences.records import Cause, Differences, Move, TableChange, VersionRecord
from warehouse.differences.sides import NoVersionError, find_file, previous_and_current

__all__ = [
    "Cause",
    "Differences",
    "Move",
    "NoVersionError",
    "TableChange",
    "VersionRecord",
    "compare",
    "find_file",
    "previous_and_current",
]
