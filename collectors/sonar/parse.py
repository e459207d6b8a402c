"""A file that sonar wrote, or Jobanalyzer's configuration of a cluster. Pure: bytes in, snapshots and machines out.

| form | told by |
|---|---|
| `sonar ps` without names (up to 0.6) | a time, a host and a number in the first cells |
| `sonar ps` with names (0.7 and later) | `v=` and `time=` |
| `sonar ps` as JSON | `samples` (0.13), `data.attributes` with `system` or `jobs` |
| `sonar sysinfo` | `hostname` and `timestamp` (0.9), `data.attributes` with `cards` or `cores_per_socket` |
| configuration | nodes that have a `hostname` |
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from collectors.command import SourceFailedError
from collectors.files import decode
from collectors.slurm import documents
from collectors.slurm.json_values import dig
from collectors.sonar import machines, sample_json, text
from collectors.sonar.machines import Machine
from collectors.sonar.snapshots import Snapshot
from warehouse.landing.conform import MALFORMED, Reject, redact

UNKNOWN = (
    "{}: neither samples, sysinfo nor a cluster's configuration of sonar; save what `sonar ps` or `sonar sysinfo` prints "
    "(jobs and partitions are for the command slurm)"
)


@dataclass
class Contents:
    snapshots: list[Snapshot] = field(default_factory=list)
    machines: list[Machine] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)


def parse_sonar(data: bytes, file: str, *, is_batch: bool = False) -> Contents:
    """What one file tells; `is_batch`: jobs of versions that do not say whose they are, are a batch system's.

    A line or document that cannot be read is a reject. Raises SourceFailedError where none can.
    """
    content = decode(data, file, "replace").replace("\0", "\ufffd")
    contents = Contents()
    if content.lstrip()[:1] in ("{", "["):
        _add_documents(contents, content, file, is_batch)
        return contents
    first = next((line for line in content.split("\n") if line.strip()), "").rstrip("\r")
    if not text.is_tagged(first) and not text.is_untagged(first):
        raise SourceFailedError(UNKNOWN.format(file))
    contents.snapshots, contents.rejects = text.read(content, file, is_batch=is_batch)
    return contents


def _add_documents(contents: Contents, content: str, file: str, is_batch: bool) -> None:
    found, contents.rejects = documents.read(content, file)
    failures: list[SourceFailedError] = []
    for line, document in found:
        try:
            _add_document(contents, document, file, line, is_batch)
        except SourceFailedError as error:
            failures.append(error)
            contents.rejects.append(Reject(file, line, MALFORMED, str(error)))
        except (ValueError, TypeError, AttributeError, KeyError, OverflowError) as error:
            detail = f"the document cannot be read ({type(error).__name__}: {error})"
            contents.rejects.append(Reject(file, line, MALFORMED, detail, redact(json.dumps(document))[:2000]))
    if failures and len(failures) == len(found):
        raise failures[0]


def _add_document(contents: Contents, document: Any, file: str, line: int, is_batch: bool) -> None:
    attributes = dig(document, "data", "attributes")
    if isinstance(attributes, dict):
        _add_attributes(contents, attributes, file, line)
    elif isinstance(document, dict) and isinstance(document.get("samples"), list):
        contents.snapshots.append(sample_json.read_ps(document, line, is_batch))
    elif isinstance(document, dict) and "hostname" in document and "timestamp" in document:
        contents.machines.append(machines.read_old_sysinfo(document, line))
    elif machines.is_config(document):
        contents.machines += machines.read_config(document)
    else:
        errors = dig(document, "errors")
        told = f": it reports errors and nothing else: {redact(json.dumps(errors), 300)}" if errors else ""
        raise SourceFailedError(UNKNOWN.format(file) + told)


def _add_attributes(contents: Contents, attributes: Mapping[str, Any], file: str, line: int) -> None:
    if "cores_per_socket" in attributes or "cards" in attributes:
        contents.machines.append(machines.read_sysinfo(attributes, line))
    elif "node" in attributes and "slurm_jobs" not in attributes:  # a sample without jobs tells that the node is there
        contents.snapshots.append(sample_json.read_sample(attributes, line))
    else:
        raise SourceFailedError(UNKNOWN.format(file))
