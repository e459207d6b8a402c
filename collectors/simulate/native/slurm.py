"""What Slurm's commands print of alder: `sacct -P`, `scontrol show node`, `sacctmgr -P show event`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from collectors.simulate.hardware import ALDER, Node
from collectors.simulate.plan import DOWN, DRAINED, DRAINING, INTERACTIVE_KIND, RESERVED, Plan, Run, Waiting

SACCT_FIELDS = (
    "JobIDRaw|JobID|JobName|Account|Partition|State|ExitCode|Submit|Eligible|Start|End|ElapsedRaw|Suspended|NNodes|NodeList|"
    "ReqTRES|AllocTRES"
)
EVENT_FIELDS = "Cluster|NodeName|TimeStart|TimeEnd|State|Reason"
#: our states as Slurm writes them
EVENT_STATES = {DOWN: "DOWN", DRAINING: "MIXED+DRAIN", DRAINED: "IDLE+DRAIN", RESERVED: "RESERVED"}


def sacct(plan: Plan, first: int, last: int) -> str:
    """`sacct --allusers --duplicates --parsable2 --starttime … --endtime …` of the minutes `[first, last)`, asked at `last`."""
    lines = [SACCT_FIELDS]
    for run in plan.runs:
        if run.cluster == ALDER and run.start < last and run.until(plan.window) > first:
            lines += _job(plan, run, last)
    for waiting in plan.waiting:
        if waiting.submitted < last and (waiting.until > first or waiting.state == "PENDING"):
            lines.append(_waiting(plan, waiting, last))
    return "\n".join(lines) + "\n"


def _job(plan: Plan, run: Run, last: int) -> Iterator[str]:
    is_over = run.end is not None and run.end <= last
    state = run.state if is_over else "RUNNING"
    tres = _tres(len(run.slots))
    end = plan.window.at(run.end if is_over and run.end is not None else last)
    suspended = run.suspended if is_over else 0
    elapsed = (end - plan.window.at(run.start)).total_seconds() - 60 * suspended
    submitted = _time(plan.window.at(run.submitted))
    times = (
        f"{submitted}|{submitted}|{_time(plan.window.at(run.start))}|{_time(end) if is_over else 'Unknown'}|{elapsed:.0f}"
        f"|{suspended // 60:02d}:{suspended % 60:02d}:00|1|{run.node}"
    )
    exit_code = "1:0" if state == "FAILED" else "0:0"
    partition = plan.fleet.by_name[run.node].role
    yield f"{run.job_id}|{run.job_id}|{run.name}|{run.namespace}|{partition}|{state}|{exit_code}|{times}|{tres}|{tres}"
    for step in ("interactive", "extern") if run.kind == INTERACTIVE_KIND else ("batch", "extern"):
        of_step = "CANCELLED" if state == "TIMEOUT" else state
        yield f"{run.job_id}.{step}|{run.job_id}.{step}|{step}|{run.namespace}||{of_step}|{exit_code}|{times}||{tres}"


def _waiting(plan: Plan, waiting: Waiting, last: int) -> str:
    is_over = waiting.state != "PENDING" and waiting.until <= last
    submitted = _time(plan.window.at(waiting.submitted))
    end = _time(plan.window.at(waiting.until)) if is_over else "Unknown"
    state = waiting.state if is_over else "PENDING"
    start = "None" if is_over else "Unknown"
    times = f"{submitted}|{submitted}|{start}|{end}|0|00:00:00|1|None assigned"
    tres = _tres(waiting.gpu_count)
    return f"{waiting.job_id}|{waiting.job_id}|{waiting.name}|{waiting.namespace}|batch|{state}|0:0|{times}|{tres}|"


def _tres(gpus: int) -> str:
    return f"billing={8 * gpus},cpu={8 * gpus},gres/gpu:a100={gpus},gres/gpu={gpus},mem={64 * gpus}G,node=1"


def nodes(plan: Plan, last: int) -> str:
    """`scontrol show node` at `last`."""
    return "\n".join(_node(plan, node, last) for node in plan.fleet.in_cluster(ALDER))


def _node(plan: Plan, node: Node, last: int) -> str:
    held = sum(
        len(run.slots)
        for run in plan.runs_by_node.get(node.name, [])
        if run.start <= last and (run.end is None or run.end > last)
    )
    trouble = next(
        (
            found
            for found in plan.troubles_by_node.get(node.name, [])
            if found.kind in EVENT_STATES and found.start <= last < found.end
        ),
        None,
    )
    base = "ALLOCATED" if held == node.cards else "MIXED" if held else "IDLE"
    state = EVENT_STATES[trouble.kind] if trouble else base
    lines = [
        f"NodeName={node.name} Arch=x86_64 CoresPerSocket=32 ",
        f"   CPUAlloc={8 * held} CPUEfctv={16 * node.cards} CPUTot={16 * node.cards} CPULoad={4.2 * held:.2f}",
        f"   AvailableFeatures={node.instance_type}",
        f"   ActiveFeatures={node.instance_type}",
        f"   Gres=gpu:a100:{node.cards}(S:0-1)",
        f"   NodeAddr={node.name} NodeHostName={node.name} Version=24.05.4",
        f"   RealMemory={131072 * node.cards} AllocMem={65536 * held} FreeMem={60000 * node.cards} Sockets=2 Boards=1",
        f"   State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A",
        f"   Partitions={node.role} ",
        f"   CfgTRES=cpu={16 * node.cards},mem={128 * node.cards}G,billing={16 * node.cards},gres/gpu={node.cards}",
        f"   AllocTRES={_tres(held) if held else ''}",
    ]
    if trouble:
        lines.append(f"   Reason={trouble.reason} [root@{_time(plan.window.at(trouble.start))}]")
    return "\n".join(lines) + "\n"


def events(plan: Plan, first: int, last: int) -> str:
    """`sacctmgr --parsable2 show event` of states that ended in `[first, last)`; empty where none did."""
    lines = [
        f"{ALDER}|{node.name}|{_time(plan.window.at(trouble.start))}|{_time(plan.window.at(trouble.end))}"
        f"|{EVENT_STATES[trouble.kind]}|{trouble.reason}"
        for node in plan.fleet.in_cluster(ALDER)
        for trouble in plan.troubles_by_node.get(node.name, [])
        if trouble.kind in EVENT_STATES and first < trouble.end <= last
    ]
    return "\n".join([EVENT_FIELDS, *lines]) + "\n" if lines else ""


def _time(instant: datetime) -> str:
    return f"{instant:%Y-%m-%dT%H:%M:%S}"
