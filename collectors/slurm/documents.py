"""JSON as tools leave it: one document, a document per line, or several one after the other."""

from __future__ import annotations

import json
from typing import Any

from collectors.command import SourceFailedError
from warehouse.landing.conform import MALFORMED, Reject, redact

Documents = list[tuple[int, Any]]


def read(text: str, file: str) -> tuple[Documents, list[Reject]]:
    """(line, document) of each; what stands behind the last whole one, or a line that is none, is a reject.

    Raises SourceFailedError where there is no whole document at all.
    """
    try:
        return [(1, json.loads(text))], []
    except RecursionError:
        raise SourceFailedError(f"{file}: JSON nested too deep to be Slurm's") from None
    except ValueError as error:
        first = error
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    found, rejects = _per_line(lines, file) if len(lines) > 1 and _is_whole(lines[0][1]) else _one_after_other(text, file)
    if not found:
        raise SourceFailedError(f"{file}: no whole JSON document ({first}); cut off or mixed with messages, save it again")
    return found, rejects


def _per_line(lines: list[tuple[int, str]], file: str) -> tuple[Documents, list[Reject]]:
    found: Documents = []
    rejects: list[Reject] = []
    for number, line in lines:
        try:
            found.append((number, json.loads(line)))
        except (ValueError, RecursionError) as error:
            rejects.append(Reject(file, number, MALFORMED, f"no whole JSON document ({error})", redact(line[:2000])))
    return found, rejects


def _one_after_other(text: str, file: str) -> tuple[Documents, list[Reject]]:
    decoder = json.JSONDecoder()
    found: Documents = []
    place, line = 0, 1
    while True:
        start = place + len(text[place:]) - len(text[place:].lstrip())
        line += text.count("\n", place, start)
        if start == len(text):
            return found, []
        try:
            document, place = decoder.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            reject = Reject(file, line, MALFORMED, f"no whole JSON document ({error})", redact(text[start : start + 2000]))
            return found, [reject]
        found.append((line, document))
        line += text.count("\n", start, place)


def _is_whole(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
