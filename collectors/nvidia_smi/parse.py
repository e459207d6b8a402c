"""A file of any of these outputs, or of several one after the other → readings and sightings, told apart by their content.

A file is read as a sequence of blocks: each kind of output is known by its first line and ends where a line is not its
own. So a log of a loop, a session's transcript and a capture of many commands are read alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from collectors.command import SourceFailedError
from collectors.nvidia_smi.amd import JsonBlock, begins_json
from collectors.nvidia_smi.blocks import Block, Reading
from collectors.nvidia_smi.lines import read_lines
from collectors.nvidia_smi.listing import ListingBlock, begins_listing
from collectors.nvidia_smi.monitor import MonitorBlock, begins_monitor
from collectors.nvidia_smi.query import QueryBlock, header_of_fields, normal_pci, read_header
from collectors.nvidia_smi.records import Found, GpuReading, Identity, Note, OptionMissingError
from collectors.nvidia_smi.report_text import TextReportBlock, begins_text_report
from collectors.nvidia_smi.report_xml import XmlBlock, begins_xml
from collectors.nvidia_smi.schema import FAILURE, LOST, UNREACHABLE
from warehouse.landing.conform import Reject

_SHOWN = 80
#: a message of the tool is shorter
_MESSAGE = 500
_REMEDY = "save what nvidia-smi -q -x, or --query-gpu=timestamp,uuid,… --format=csv, prints"


@dataclass(frozen=True)
class Input:
    """One file: how it is read, and the fields of CSV rows that have no header above them."""

    path: Path
    reading: Reading
    fields: Sequence[str] = ()


def read_records(given: Input) -> Iterator[Found]:
    """What the file holds, in its order, with the rejects.

    Raises SourceFailedError where nothing in it is an output of these tools, OptionMissingError where it has rows without a
    header.
    """
    reading = given.reading
    block: Block | None = QueryBlock(reading, header_of_fields(given.fields)) if given.fields else None
    is_read, strays = bool(given.fields), 0
    stray: tuple[int, str] | None = None
    failure, is_table = "", False
    last_at: datetime | None = None
    for item in read_lines(given.path):
        if isinstance(item, Reject):
            yield item
            continue
        line, text = item
        if text.startswith("WARNING:"):
            yield Note(text[:200])  # infoROM is corrupted at gpu …; it is printed beside the output
            continue
        begun = _begin(text, block, reading)
        if begun is not None:
            yield from block.finish() if block else ()
            block, is_read = begun, True
            if isinstance(begun, QueryBlock):
                continue  # its header
        found = block.feed(line, text) if block else None
        if found is not None and not _is_failure(text, found):
            for record in found:
                last_at = record.at if isinstance(record, GpuReading) and isinstance(record.at, datetime) else last_at
                yield record
            continue
        if FAILURE.search(text[:_MESSAGE]):
            failure = failure or text.strip()
            yield reading.reject(line, f"nvidia-smi failed here: {text.strip()[:200]}", text.strip())
            unreachable = UNREACHABLE.search(text[:_MESSAGE])
            if unreachable:
                is_read = True
                yield _lost(line, unreachable[1], last_at)
        elif found is not None:
            yield from found
        elif text.strip():
            if block:
                yield from block.finish()
                block = None
            strays += 1
            stray = stray or (line, text.strip())
            is_table = is_table or ("NVIDIA-SMI" in text and "Driver Version" in text)
    yield from block.finish() if block else ()
    if not is_read:
        raise _nothing_read(reading.file, stray, failure, is_table)
    if stray:
        yield Note(f"{strays} lines that are no output read here, the first at line {stray[0]}")


def _begin(text: str, block: Block | None, reading: Reading) -> Block | None:
    """The block that begins with this line; None where the line belongs to the one before, or to none."""
    first = text.lstrip()[:1]
    if isinstance(block, JsonBlock) and block.is_open:
        return None
    if first in ("<", "\ufeff") and begins_xml(text):
        return None if isinstance(block, XmlBlock) else XmlBlock(reading)
    if isinstance(block, XmlBlock) and block.is_open:
        return None
    if first in ("{", "[") and begins_json(text):
        return None if isinstance(block, JsonBlock) else JsonBlock(reading)
    if first in ("=", "T") and begins_text_report(text):
        return None if isinstance(block, TextReportBlock) else TextReportBlock(reading)
    if first == "G" and begins_listing(text):
        return None if isinstance(block, ListingBlock) else ListingBlock()
    if first == "#" and begins_monitor(text):
        return MonitorBlock(reading)
    if first and (first.isalpha() or first in '"#\ufeff') and not isinstance(block, TextReportBlock):
        header = read_header(text)
        return QueryBlock(reading, header) if header else None
    return None


def _lost(line: int, pci: str, last_at: datetime | None) -> GpuReading:
    """A GPU that could not be reached: lost right after the reading before, since the message has no time of its own."""
    at = last_at + timedelta(milliseconds=1) if last_at else None
    return GpuReading(line, Identity(pci=normal_pci(pci)), {"temperature.gpu": f"[{LOST}]"}, at)


def _is_failure(text: str, found: Iterable[Found]) -> bool:
    """Whether a block took a line that tells of the tool's failure for one of its own broken ones."""
    return (
        isinstance(found, tuple)
        and any(isinstance(item, Reject) for item in found)
        and FAILURE.search(text[:_MESSAGE]) is not None
    )


def _nothing_read(file: str, stray: tuple[int, str] | None, failure: str, is_table: bool) -> SourceFailedError:
    if failure:
        return SourceFailedError(f"{file}: nvidia-smi failed when this was saved: {failure[:200]}; check the driver on that host")
    if stray is None:
        return SourceFailedError(f"{file}: the file is empty; {_REMEDY}")
    line, text = stray
    if is_table:
        return SourceFailedError(f"{file}: the summary table is for the eye, it rounds and leaves out; {_REMEDY}")
    if "," in text and len(text) < 10_000 and text[:1].isalnum():
        return OptionMissingError(
            f"{file}:{line}: rows without a header; name the fields as they were asked for: "
            "--fields timestamp,uuid,utilization.gpu,…"
        )
    return SourceFailedError(f"{file}:{line}: no output of nvidia-smi or rocm-smi: {text[:_SHOWN]!r}; {_REMEDY}")
