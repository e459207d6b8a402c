"""`sinfo` as people save it: `-N -l`, `-o`/`-O` with a header, `-R`, with a delimiter or in columns, for several clusters.

Columns are found by their headers. In columns set with spaces only REASON holds spaces, so what stands left of it is counted
from the left and what stands right of it from the right. Without a header the two lists that sonar keeps are known:
`nodes|state|` (`-h -O nodelist:|,statecomplete:|`) and `partition|nodes|`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from zoneinfo import ZoneInfo

from collectors.slurm import tres
from collectors.slurm.nodelist import expand
from collectors.slurm.nodes import Node, gpu_count_of
from collectors.slurm.states import is_state
from collectors.slurm.times import parse_time
from collectors.times import to_utc
from warehouse.landing.conform import MALFORMED, Reject, redact

#: sinfo's headers → what we read; all else is left alone (src/sinfo/print.c)
COLUMNS: Mapping[str, str] = {
    "NODELIST": "nodes", "HOSTNAMES": "nodes", "NODEHOST": "nodes", "NODE_ADDR": "address", "PARTITION": "partition",
    "STATE": "state", "STATECOMPLETE": "state", "STATELONG": "state", "STATECOMPACT": "state", "CPUS": "cpus", "MEMORY": "memory",
    "GRES": "gres", "REASON": "reason", "TIMESTAMP": "since", "FEATURES": "features", "ACTIVE_FEATURES": "features",
    "FEATURES_ACT": "features", "AVAIL_FEATURES": "available", "CLUSTER": "cluster", "USER": "user", "NODES": "count",
    "GRES_USED": "used", "TIMELIMIT": "limit", "AVAIL": "availability", "AVAIL_FE": "available", "WEIGHT": "weight",
    "TMP_DISK": "disk", "S:C:T": "sockets", "CPU_LOAD": "load", "FREE_MEM": "free", "CPUS(A/I/O/T)": "cpu_states",
    "NODES(A/I/O/T)": "node_states", "NODES(A/I)": "node_states", "VERSION": "version", "JOB_SIZE": "size", "ROOT": "root",
    "OVERSUBS": "shared", "SHARE": "shared", "GROUPS": "groups", "ALLOCMEM": "used_memory", "PRIO_TIER": "tier",
}  # fmt: skip

_DATE = re.compile(r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ([A-Z][a-z]{2}) +(\d{1,2}) (\d\d:\d\d:\d\d) (\d{4})")
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_CLUSTER = re.compile(r"CLUSTER: *(\S+)")


@dataclass
class Sinfo:
    """Nodes as they were at `taken_at`, where the output tells it (`-l` prints the time above its columns)."""

    nodes: list[Node] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    taken_at: datetime | None = None


@dataclass(frozen=True)
class _Layout:
    names: tuple[str, ...]
    delimiter: str | None

    def cut(self, line: str) -> dict[str, str]:
        """Column → text; ValueError where the line has not one text per column."""
        if self.delimiter:
            cells = [cell.strip() for cell in line.split(self.delimiter)]
            while len(cells) > len(self.names) and not cells[-1]:
                cells.pop()
        else:
            cells = _words(line, self.names)
            if self.names[-1] == "nodes" and len(cells) == len(self.names) - 1 and "0" in cells:
                cells.append("")  # a partition without nodes
        if len(cells) != len(self.names):
            raise ValueError(
                f"{len(cells)} texts in {len(self.names)} columns: a value is cut off or holds the delimiter; "
                "save with sinfo -N -o '%N|%P|%T|%G|%c|%m|%H|%E'"
            )
        return dict(zip(self.names, cells, strict=True))


def is_sinfo(lines: Sequence[str], named: Sequence[str] = ()) -> bool:
    """Whether the output's first lines are sinfo's: its headers, a cluster's name above them, or sonar's two lists.

    `named` are the fields that the reader was told an output without header has.
    """
    if named:
        return _layout_of(named, "|") is not None
    first = [line for line in lines if not _DATE.fullmatch(line.strip()) and not _CLUSTER.fullmatch(line.strip())][:1]
    return bool(first) and (_header(first[0]) is not None or _headless(first) is not None)


def read(text: str, file: str, zone: ZoneInfo | None, named: Sequence[str] = (), delimiter: str | None = None) -> Sinfo:
    """Nodes of an output; a line that cannot be read is a reject, the rest stands."""
    result = Sinfo()
    lines = [(number, line.rstrip("\r")) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    layout = _layout_of(named, delimiter or "|") if named else None
    cluster: str | None = None
    for number, line in lines:
        if date := _DATE.fullmatch(line.strip()):
            result.taken_at = result.taken_at or _dated(date, zone)
        elif of_cluster := _CLUSTER.fullmatch(line.strip()):
            cluster = of_cluster[1]
        elif header := _header(line):
            layout = header
        else:
            layout = layout or _headless([line for _, line in lines])
            try:
                if layout is None:
                    raise ValueError("no header names the columns; save without -h, or name them: --fields NODELIST,STATE")
                result.nodes += _nodes(layout.cut(line), number, cluster, zone)
            except ValueError as error:
                result.rejects.append(Reject(file, number, MALFORMED, str(error), redact(line[:2000])))
    return result


def _header(line: str) -> _Layout | None:
    for delimiter in ("|", "\t", ";", ",", None):
        if delimiter is None or delimiter in line:
            words = line.split(delimiter) if delimiter else line.split()
            layout = _layout_of([word for word in words if word.strip() or delimiter], delimiter)
            if layout:
                return layout
    return None


def _layout_of(names: Sequence[str], delimiter: str | None) -> _Layout | None:
    """The layout of these headers; None where they do not name nodes and something to say of them."""
    columns = [COLUMNS.get(name.strip().upper(), name.strip().lower()) for name in names]
    while columns and not columns[-1]:
        columns.pop()
    told = {"state", "partition", "gres", "reason", "cpus", "memory"} & set(columns)
    known = sum(name.strip().upper() in COLUMNS for name in names)
    return _Layout(tuple(columns), delimiter) if "nodes" in columns and told and known * 2 > len(columns) else None


def _headless(lines: Sequence[str]) -> _Layout | None:
    """Sonar's two lists: every line is two texts, the second a state or the first a partition."""
    cells = [line.rstrip("\r").rstrip("|").split("|") for line in lines]
    if not cells or any(len(row) != 2 for row in cells):
        return None
    if all(is_state(row[1]) for row in cells) and all(_is_node_list(row[0]) for row in cells):
        return _Layout(("nodes", "state"), "|")
    if all(re.fullmatch(r"[\w.-]+\*?", row[0]) for row in cells) and all(_is_node_list(row[1]) for row in cells):
        return _Layout(("partition", "nodes"), "|")
    return None


def _is_node_list(text: str) -> bool:
    return re.fullmatch(r"[\w.,\[\]-]*[A-Za-z][\w.,\[\]-]*", text.strip()) is not None


def _words(line: str, names: Sequence[str]) -> list[str]:
    """The texts of a line set in columns; REASON takes what is left between the others."""
    if "reason" not in names:
        return line.split()
    before = names.index("reason")
    after = len(names) - before - 1
    head = line.split(maxsplit=before)
    middle = head.pop() if len(head) > before else ""
    tail = middle.rsplit(maxsplit=after) if after else [middle]
    reason = tail.pop(0) if len(tail) > after else ""
    return [*head, reason.strip(), *tail]


def _nodes(values: Mapping[str, str], line: int, cluster: str | None, zone: ZoneInfo | None) -> Iterator[Node]:
    gres = _said(values, "gres")
    reason = _said(values, "reason")
    since = _said(values, "since")
    partition = _said(values, "partition")
    cpus = _said(values, "cpus")
    for name in expand(values["nodes"]):
        yield Node(
            name=name,
            line=line,
            cluster=_said(values, "cluster") or cluster,
            cpu_count=int(cpus) if cpus.isdecimal() and len(cpus) < 8 else None,
            memory_bytes=None if "+" in _said(values, "memory") else tres.parse_bytes(_said(values, "memory")),
            gpu_count=gpu_count_of(gres) if "gres" in values else None,
            gres=gres if "gres" in values else None,
            partitions=(partition.rstrip("*"),) if partition else (),
            features=_said(values, "features") or None,
            state=_said(values, "state") or None,
            reason=reason or None,
            since=parse_time(since, zone) if since else None,
        )


def _said(values: Mapping[str, str], name: str) -> str:
    text = values.get(name, "").strip()
    return "" if text.lower() in ("(null)", "n/a", "none") else text


def _dated(match: re.Match[str], zone: ZoneInfo | None) -> datetime | None:
    month, day, clock, year = match.groups()
    try:
        return to_utc(datetime.fromisoformat(f"{year}-{_MONTHS.index(month) + 1:02}-{int(day):02}T{clock}"), zone)
    except ValueError:
        return None
