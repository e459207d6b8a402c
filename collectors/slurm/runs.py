"""Records of sacct into rows of `runs`: one per job attempt, steps and the TRES they repeat left out."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from collectors.slurm import tres
from collectors.slurm.comments import GpuStatistics, statistics_of
from collectors.slurm.gres import gpus_of_gres, parse_gres
from collectors.slurm.nodelist import expand
from collectors.slurm.records import Record
from collectors.slurm.shares import shares_of
from collectors.slurm.slices import Kind, MigRules, kinds_of, only_model, only_profile
from collectors.slurm.times import NOTHING, is_local, parse_duration, parse_time
from collectors.slurm.tres import Gpus, parse_count
from collectors.times import AMBIGUOUS_LOCAL_TIME, AmbiguousTimeError
from warehouse.landing.conform import MALFORMED, Reject, redact

#: nothing has started
WAITING_STATES = frozenset({"PENDING", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"})
#: the attempt has not ended, whatever its row says of an end (`--truncate` puts the end of the window there)
OPEN_STATES = WAITING_STATES | frozenset(
    {"RUNNING", "SUSPENDED", "CONFIGURING", "COMPLETING", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED"}
)

UNTRACKED = (
    "no row mentions gres/gpu, so GPU counts are unknown (null, not 0): save AllocTRES with the other fields; "
    "if it has no gres/gpu, slurm.conf needs AccountingStorageTRES=gres/gpu"
)
ZONE_ASSUMED = "times without offset were read as UTC; name their zone with --time-zone"
ZONE_DOUBTED = "rows have an Elapsed longer than End - Start, as a change of clocks makes it: is --time-zone right?"
END_DERIVED = "rows have ended but say End Unknown: start plus elapsed time stands for it"
UNREADABLE = "rows have an unreadable {}, left empty"

#: how many of a kind each node gives, where only the job's own count is known
BY_TRES = "tres_count"
WITHOUT_RULES = MigRules()
NO_STATISTICS = GpuStatistics(None, None)

Value = TypeVar("Value")


@dataclass
class Attempts:
    """Rows of `runs` (`cluster` as the record names it, no `observed_at` yet), the rejects, and `through`: the last instant
    that a row vouches for."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    #: `run_gpus` of jobs that hold whole cards and MIG instances together: how many of which kind on each node
    run_gpus: list[dict[str, Any]] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    through: datetime | None = None
    oddities: Counter[str] = field(default_factory=Counter)


def to_attempts(records: Sequence[Record], file: str, zone: ZoneInfo | None, rules: MigRules = WITHOUT_RULES) -> Attempts:
    """The job rows of `records`; a row whose values cannot be read becomes a reject, the rest stands.

    `through` is the latest end, or for a run without one its start plus the time that sacct says has elapsed, which is the
    moment sacct was asked. A submission counts only where nothing has started: one later than the start has been seen.
    """
    result = Attempts()
    steps = _step_names(records)
    commented = statistics_of(records)
    tracked = {record.get("Cluster") for record in records if _mentions_gpus(record)}
    for record in records:
        if record.is_step:
            continue
        try:
            names = steps.get(_job_of(record), frozenset())
            statistics = commented.get(_job_of(record), NO_STATISTICS)
            gpus, kinds = _gpus(record, rules, statistics)
            row, instant = _row(record, zone, result.oddities)
            row["labels"] = _labels(record, names, statistics)
            row |= _gpu_columns(record, gpus, kinds, record.get("Cluster") in tracked)
        except ValueError as error:
            reason = AMBIGUOUS_LOCAL_TIME if isinstance(error, AmbiguousTimeError) else MALFORMED
            result.rejects.append(Reject(file, record.line, reason, str(error), redact(record.text)))
            continue
        result.rows.append(row)
        if len(kinds) > 1 and row["started_at"] and row["node_list"]:
            result.run_gpus += _kinds_per_node(row, kinds)
        result.through = max((moment for moment in (result.through, instant) if moment), default=None)
    return result


def notes(attempts: Attempts) -> list[str]:
    """What a reader should know about the rows: assumed zones, unknown GPU counts, values left empty."""
    started = [row for row in attempts.rows if row["started_at"]]
    found = [UNTRACKED] if started and all(row["gpu_count"] is None for row in started) else []
    return found + [text if text == ZONE_ASSUMED else f"{count} {text}" for text, count in sorted(attempts.oddities.items())]


def _row(record: Record, zone: ZoneInfo | None, oddities: Counter[str]) -> tuple[dict[str, Any], datetime | None]:
    state = re.sub(r"\+$| by \S+$", "", record.get("State"))
    submitted_at, eligible_at, started_at, ended_at = (
        parse_time(record.get(name), zone) for name in ("Submit", "Eligible", "Start", "End")
    )
    if zone is None and any(is_local(record.get(name)) for name in ("Submit", "Eligible", "Start", "End")):
        oddities[ZONE_ASSUMED] += 1
    started_at = None if state in WAITING_STATES else started_at
    ended_at = None if state in OPEN_STATES else ended_at
    elapsed = parse_duration(record.get("ElapsedRaw", "Elapsed"))
    suspended = parse_duration(record.get("Suspended"))
    if started_at and not ended_at and state not in OPEN_STATES and elapsed is not None:
        ended_at = started_at + timedelta(seconds=elapsed + (suspended or 0))
        oddities[END_DERIVED] += 1
    if started_at and ended_at:
        if ended_at < started_at:
            raise ValueError(
                f"End {ended_at.isoformat()} lies before Start {started_at.isoformat()}; see sacctmgr show runawayjobs"
            )
        held = (ended_at - started_at).total_seconds()
        if elapsed is not None and elapsed > held + 1:
            oddities[ZONE_DOUBTED] += 1
        if suspended is None and elapsed is not None:
            suspended = max(held - elapsed, 0.0)  # sacct's elapsed time leaves suspension out
    row = {
        "line_number": record.line,
        "cluster": record.get("Cluster") or None,
        "scheduler": "slurm",
        "job_id": record.raw_id,
        "name": record.get("JobName") or "allocation",  # as slurmdbd calls a job without a name
        "namespace": record.get("Account") or None,
        "user": record.get("User") or None,
        "queue": record.get("Partition") or None,
        "qos": record.get("QOS") or None,
        "state": state or None,
        "exit_code": record.get("ExitCode") or None,
        "submitted_at": submitted_at,
        "eligible_at": eligible_at,
        "started_at": started_at,
        "ended_at": ended_at,
        "suspended_seconds": suspended if started_at else None,
    }
    row |= _resources(record, oddities)
    row |= _nodes(record)
    row["cpu_seconds"] = _cpu_seconds(record, oddities) if started_at and ended_at else None
    if ended_at:
        return row, ended_at
    if started_at:
        return row, started_at + timedelta(seconds=(elapsed or 0) + (suspended or 0))
    return row, submitted_at


def _mentions_gpus(record: Record) -> bool:
    return "gres/gpu" in record.get("AllocTRES") + record.get("ReqTRES") or "gpu" in record.get("AllocGRES")


def _gpus(record: Record, rules: MigRules, statistics: GpuStatistics) -> tuple[Gpus, tuple[Kind, ...]]:
    """The GPUs a job holds, from its TRES, else (clusters that do not track gres/gpu; case B03) its GRES, else what its site
    noted of them; and their kinds."""
    held = tres.gpus(tres.parse_tres(record.get("AllocTRES")))
    if held.count is None:
        held = gpus_of_gres(parse_gres(record.get("AllocGRES")))
    if held.count is None and statistics.count is not None:
        held = Gpus(statistics.count, ((None, statistics.count),) if statistics.count else ())
    return held, kinds_of(held, record.get("Partition"), rules)


def _gpu_columns(record: Record, held: Gpus, kinds: Sequence[Kind], is_tracked: bool) -> dict[str, Any]:
    """GPU counts, model and MIG profile. A job that lists resources without GPUs has 0 where the cluster tracks GPUs at all."""
    allocated, requested = tres.parse_tres(record.get("AllocTRES")), tres.parse_tres(record.get("ReqTRES"))
    wanted = tres.gpus(requested)
    shared = shares_of(allocated, parse_gres(record.get("AllocGRES")))
    count = held.count
    if count is None and allocated and is_tracked and not wanted.count and not shared:
        count = 0
    return {
        "requested_gpu_count": 0 if wanted.count is None and requested and is_tracked else wanted.count,
        "gpu_count": count,
        "gpu_model": only_model(held),
        "mig_profile": only_profile(kinds),
        "shared_gres": shared,
    }


def _kinds_per_node(row: Mapping[str, Any], kinds: Sequence[Kind]) -> Iterator[dict[str, Any]]:
    """Each kind spread evenly over the job's nodes, as semantics 3 spreads a count whose nodes' shares are not known."""
    nodes = row["node_list"].split(",")
    for node in nodes:
        for kind in kinds:
            yield {
                "line_number": row["line_number"],
                "cluster": row["cluster"],
                "job_id": row["job_id"],
                "node": node,
                "mig_profile": kind.profile,
                "gpu_count": kind.count / len(nodes),
                "started_at": row["started_at"],
                "ended_at": row["ended_at"],
                "assignment_method": BY_TRES,
            }


def _resources(record: Record, oddities: Counter[str]) -> dict[str, Any]:
    """CPUs, memory and time limit."""
    allocated, requested = tres.parse_tres(record.get("AllocTRES")), tres.parse_tres(record.get("ReqTRES"))
    cpus, nodes = (
        _readable(parse_count, text, name, oddities)
        for name, text in (
            ("number of CPUs", allocated.get("cpu") or record.get("NCPUS", "AllocCPUS", "ReqCPUS")),
            ("number of nodes", allocated.get("node") or record.get("NNodes", "AllocNodes", "ReqNodes")),
        )
    )
    sizes = (
        _readable(lambda text: tres.parse_bytes(text, cpus=cpus, nodes=nodes), text, "memory size", oddities)
        for text in (allocated.get("mem", ""), requested.get("mem", ""), record.get("ReqMem"))
    )
    return {
        "cpu_count": cpus,
        "memory_bytes": next((size for size in sizes if size is not None), None),
        "time_limit_seconds": _readable(_minutes, record.get("TimelimitRaw"), "time limit", oddities)
        or _readable(parse_duration, record.get("Timelimit"), "time limit", oddities),
    }


def _minutes(text: str) -> int | None:
    """Seconds of a limit in minutes; one of centuries is Slurm's word for none."""
    if text.lower() in NOTHING:
        return None
    minutes = parse_count(text)
    return round(minutes) * 60 if minutes is not None and minutes < 10**8 else None


def _nodes(record: Record) -> dict[str, Any]:
    nodes = expand(record.get("NodeList"))
    return {"node_list": ",".join(nodes) or None, "node_count": len(nodes) or None}


def _cpu_seconds(record: Record, oddities: Counter[str]) -> float | None:
    """CPU time used: TotalCPU, else user + system. Not CPUTimeRAW, which is allocated CPUs times elapsed time."""
    parts = [text for text in [record.get("TotalCPU")] if text] or [record.get("UserCPU"), record.get("SystemCPU")]
    seconds = [_readable(parse_duration, text, "CPU time", oddities) for text in parts]
    known = [value for value in seconds if value is not None]
    return sum(known) if known else None


def _labels(record: Record, steps: frozenset[str], statistics: GpuStatistics) -> str | None:
    """What the columns have no room for, as JSON: how the job was started, its array or heterogeneous job, its shares, and
    the mean GPU utilisation that its site noted.

    `interactive`: its name says so (`interactive`, Jupyter), or there is no batch script: salloc, srun, steps without `.batch`.
    """
    labels: dict[str, Any] = {}
    name, command = record.get("JobName").lower(), record.get("SubmitLine").split(" ")[0].rsplit("/", 1)[-1]
    if name.strip("_") == "interactive" or "jupyter" in name:
        labels["interactive"] = True
    elif "batch" in steps or command == "sbatch":
        labels["batch"] = True
    elif steps or command in ("salloc", "srun"):
        labels["interactive"] = True
    printed = record.get("JobID")
    if match := re.fullmatch(r"(\d+)_(\d+|\[.*\])", printed):
        labels |= {"array_job_id": match[1], "array_task_id": match[2].strip("[]")}
    elif match := re.fullmatch(r"(\d+)\+(\d+)", printed):
        labels |= {"het_job_id": match[1], "het_offset": match[2]}
    if sluid := record.get("SLUID"):
        # since 26.05 exporters label a job by this id (case B18)
        labels["sluid"] = sluid
    allocated = tres.parse_tres(record.get("AllocTRES"))
    for kind in ("shard", "mps"):
        if f"gres/{kind}" in allocated:
            labels[kind] = allocated[f"gres/{kind}"]
    if statistics.utilization_ratio is not None:
        labels["gpu_utilization_ratio"] = statistics.utilization_ratio
    return json.dumps(labels, sort_keys=True) if labels else None


def _step_names(records: Sequence[Record]) -> dict[tuple[str, str], frozenset[str]]:
    """(cluster, raw job id) → names of its steps: batch, extern, interactive, 0, 1, …"""
    names: dict[tuple[str, str], set[str]] = {}
    for record in records:
        found = {record.raw_id.partition(".")[2]} if record.is_step else set(record.steps)
        if found:
            names.setdefault(_job_of(record), set()).update(found)
    return {job: frozenset(steps) for job, steps in names.items()}


def _job_of(record: Record) -> tuple[str, str]:
    return record.get("Cluster"), record.raw_id.partition(".")[0]


def _readable(parse: Callable[[str], Value | None], text: str, what: str, oddities: Counter[str]) -> Value | None:
    """A value no GPU-hour depends on: one that cannot be read is left empty and counted, the row stays."""
    try:
        return parse(text)
    except ValueError:
        oddities[UNREADABLE.format(what)] += 1
        return None
