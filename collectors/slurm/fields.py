"""sacct's fields: their spelling, the shape of their values, and which of them are free text.

The shapes are used to find where a row's fields begin and end when the separator also stands inside a job name
(`train|llama`): sacct prints names as they are. They are wide, because they tell fields apart, they do not check them.
"""

from __future__ import annotations

import re


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


#: field order of an output saved without header by sonar-style wrappers
DEFAULT_FIELDS = _words("""
    JobID JobIDRaw User Account State Start End AveCPU AveDiskRead AveDiskWrite AveRSS AveVMSize ElapsedRaw ExitCode Layout
    MaxRSS MaxVMSize MinCPU ReqCPUS ReqMem ReqNodes Reservation Submit Suspended SystemCPU TimelimitRaw UserCPU NodeList
    Partition AllocTRES Priority JobName
""")

#: what the live command asks for, as far as the installed sacct knows it (not SubmitLine: it may hold line ends and secrets)
WANTED_FIELDS = _words("""
    Cluster JobIDRaw JobID State Submit Eligible Start End ElapsedRaw Suspended TimelimitRaw ExitCode User Account Partition
    QOS NNodes NCPUS ReqMem TotalCPU NodeList ReqTRES AllocTRES SLUID JobName
""")

#: fields that users write themselves: anything may stand in them
FREE_TEXT = frozenset(
    _words("""
    JobName Comment AdminComment SystemComment SubmitLine WorkDir WCKey Reason Extra Container StdIn StdOut StdErr Constraints
""")
)
#: fields whose own values hold commas: with a comma as delimiter they span cells
COMMA_LISTS = frozenset(_words("AllocTRES ReqTRES NodeList Partition Flags Licenses")) | frozenset(
    f"TRESUsage{way}{what}" for way in ("In", "Out") for what in ("Ave", "Max", "Min", "Tot")
)

_TIME = r"(?:Unknown|None|N/A|\d{9,11}|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?|0)?"
_DURATION = r"(?:(?:\d+-)?(?:\d+:)?\d+:\d+(?:\.\d+)?|\d+|INVALID|UNLIMITED|Partition_Limit)?"
_COUNT = r"[\d.]*[KMGTP]?"
_TRES = r"(?:[a-z]+(?:/[^=,]*)?=[^=,]*)?(?:,[a-z]+(?:/[^=,]*)?=[^=,]*)*"
_WORD = r"[^\s]*"

SHAPES = {
    **dict.fromkeys(("Submit", "Eligible", "Start", "End"), _TIME),
    **dict.fromkeys(
        ("Elapsed", "Suspended", "Timelimit", "CPUTime", "TotalCPU", "UserCPU", "SystemCPU", "AveCPU", "MinCPU", "Planned"),
        _DURATION,
    ),
    **dict.fromkeys(("ElapsedRaw", "TimelimitRaw", "CPUTimeRAW", "PlannedCPURAW"), r"\d*|UNLIMITED|Partition_Limit|INVALID"),
    **dict.fromkeys(("NNodes", "NCPUS", "AllocCPUS", "ReqCPUS", "AllocNodes", "ReqNodes", "NTasks", "Priority"), _COUNT),
    **dict.fromkeys(("AllocTRES", "ReqTRES", *(name for name in COMMA_LISTS if name.startswith("TRES"))), _TRES),
    **dict.fromkeys(("User", "Account", "Partition", "QOS", "Group", "Cluster", "Reservation"), _WORD),
    "JobID": r"\d+(?:_\d+|_\[.*\])?(?:\+\d+)?(?:\..+)?",
    "JobIDRaw": r"\d+(?:\..+)?",
    "State": r"(?:[A-Z][A-Z_]+(?: by \S+)?\+?)?",
    "ExitCode": r"(?:\d+:\d+)?",
    "DerivedExitCode": r"(?:\d+:\d+)?",
    "ReqMem": r"(?:[\d.]+[KMGTP]?[nc]?\??)?",
    "NodeList": r"None assigned|[\w.\-\[\],]*",
}
_COMPILED = {name: re.compile(shape) for name, shape in SHAPES.items()}

#: fields from which rows are made; which text an unused field took does not matter
USED = frozenset(SHAPES) | {"JobName", "SubmitLine", "AllocGRES"}

_SPELLING = {name.lower(): name for name in (*DEFAULT_FIELDS, *WANTED_FIELDS, *SHAPES, *FREE_TEXT, *COMMA_LISTS, *USED)}


def spell(name: str) -> str:
    """sacct's own spelling of a field, a width (`JobName%50`) taken off; an unknown name stays as it is."""
    name = name.strip().strip('"').split("%")[0]
    return _SPELLING.get(name.lower(), name)


def is_header(cells: list[str]) -> bool:
    """Whether these cells are field names: a job's id and at least one more field that sacct has."""
    names = [spell(cell) for cell in cells]
    return ("JobID" in names or "JobIDRaw" in names) and sum(name.lower() in _SPELLING for name in names) > 1


def has_shape(name: str, text: str) -> bool:
    """Whether `text` may be a value of the field; a field without a known shape takes anything."""
    shape = _COMPILED.get(name)
    return shape is None or shape.fullmatch(text.strip()) is not None
