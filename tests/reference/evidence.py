"""Section 3 of semantics.md: evidence of devices put into one form, before it is asked who holds what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tests.reference.world import InventoryRecord, Run, RunGpu, World

FOR_EVER = 2**62
#: namespaces of pods that hold a card for the pods that share it
PLACEHOLDERS = ("runai-reservation", "kai-resource-reservation")


def understood(world: World, spans: dict[str, tuple[int, int]]) -> World:
    """The world with indexes as devices, pod names as runs, and the holders nobody told of as runs of their own.

    `spans` are the held intervals of the runs that the scheduler told of.
    """
    rows = [_with_device(world, row) for row in world.run_gpus]
    told = {run.job_id for run in world.runs}
    has_pods = any(run.scheduler == "kubernetes" for run in world.runs)
    by_name = [row for row in rows if "/" in row.job_id and row.job_id not in told]
    others = [row for row in rows if row not in by_name]
    runs: list[Run] = list(world.runs)
    if has_pods:
        others += [found for row in by_name if (found := _of_pod(world, spans, row))]
    else:
        shown = list(_shown(world, by_name))
        runs += _named(world, shown)
        others += shown
    runs, others = _without_placeholders(runs, _once(_from_the_start(runs, spans, others)))
    return replace(world, run_gpus=others, runs=runs + _ownerless(world, runs, others))


def _without_placeholders(runs: Sequence[Run], rows: Sequence[RunGpu]) -> tuple[list[Run], list[RunGpu]]:
    """A placeholder holds its card only where nobody is known to share it, and claims nothing of a pool."""
    placeholders = {run.job_id for run in runs if run.namespace in PLACEHOLDERS}
    shared = {row.gpu for row in rows if row.job_id not in placeholders}
    kept = [row for row in rows if row.job_id not in placeholders or row.gpu not in shared]
    return [replace(run, gpu_count=None) if run.job_id in placeholders else run for run in runs], kept


def device_at(world: World, node: str, index: int, at: int) -> str | None:
    """The device of which the inventory says that it is at an index of a node: the record in force, else the next one."""
    latest: InventoryRecord | None = None
    for record in _records_at(world, node, index):
        if record.at <= at:
            latest = record
    if latest and not any(
        (other.node, other.index) != (node, index) and other.index is not None and latest.at < other.at <= at
        for other in world.inventory
        if other.gpu == latest.gpu
    ):
        return latest.gpu
    return next((record.gpu for record in _records_at(world, node, index) if record.at > at), None)


def _records_at(world: World, node: str, index: int) -> list[InventoryRecord]:
    records = [record for record in world.inventory if (record.node, record.index) == (node, index)]
    return sorted(records, key=lambda record: (record.at, record.gpu))


def _with_device(world: World, row: RunGpu) -> RunGpu:
    """A row that names an index names its device, but where a partitioned card stands at or before it."""
    if row.gpu or row.index is None or row.profile:
        return row
    before = {device_at(world, row.node, index, row.start) for index in range(row.index + 1)}
    if any(record.slot and record.gpu in before for record in world.inventory):
        return row
    return replace(row, gpu=device_at(world, row.node, row.index, row.start))


def _of_pod(world: World, spans: dict[str, tuple[int, int]], row: RunGpu) -> RunGpu | None:
    """The row of a pod that is told by namespace and name: that of the pod that held at the time, else nobody's."""
    held = [
        run
        for run in world.runs
        if run.scheduler == "kubernetes" and f"{run.namespace}/{run.name}" == row.job_id and run.run_id in spans
    ]
    found = [run for run in held if spans[run.run_id][0] <= row.start < spans[run.run_id][1]]
    return replace(row, job_id=max(found, key=lambda run: run.start or 0).job_id) if found else None


def _shown(world: World, rows: Sequence[RunGpu]) -> Iterator[RunGpu]:
    """A label speaks until the labels of its slot tell of others, at most to the end of the cluster's telemetry."""
    through = world.telemetry_through or world.scheduler_through or FOR_EVER
    for row in rows:
        later = {other.start for other in rows if (other.gpu, other.slot) == (row.gpu, row.slot) and other.start > row.start}
        complete = [
            at
            for at in later
            if sum(other.share or 1 for other in rows if (other.gpu, other.slot, other.start) == (row.gpu, row.slot, at)) > 0.999
        ]
        end = min([through, row.end or FOR_EVER, *complete])
        if row.start < end:
            yield replace(row, end=end)


def _named(world: World, rows: Sequence[RunGpu]) -> list[Run]:
    runs: list[Run] = []
    for job_id in sorted({row.job_id for row in rows}):
        mine = [row for row in rows if row.job_id == job_id]
        start, end = min(row.start for row in mine), max(row.end or row.start for row in mine)
        namespace, name = job_id.split("/", 1)
        runs.append(
            Run(
                run_id=f"{world.cluster}/{job_id}",
                job_id=job_id,
                scheduler="kubernetes",
                start=start,
                end=end,
                observed=end,
                gpu_count=None,
                profile=None,
                share=None,
                nodes=(),
                suspended_us=0,
                kind="unknown",
                namespace=namespace,
                name=name,
                is_known_by_name=True,
            )
        )
    return runs


def _from_the_start(runs: Sequence[Run], spans: dict[str, tuple[int, int]], rows: Sequence[RunGpu]) -> list[RunGpu]:
    """A label says who holds a device, from the run's start on, and how much of it only where the run does not."""
    result: list[RunGpu] = []
    for row in rows:
        run = next((run for run in runs if run.job_id == row.job_id and _is_held(spans, run, row.start)), None)
        if run and row.is_label:
            told = [r.share for r in rows if (r.job_id, r.gpu, r.slot) == (row.job_id, row.gpu, row.slot) and r.share is not None]
            share = run.share if run.share is not None else min(told, default=None)
            row = replace(row, start=spans[run.run_id][0], share=share)
        result.append(row)
    return result


def _is_held(spans: dict[str, tuple[int, int]], run: Run, at: int) -> bool:
    return run.run_id in spans and spans[run.run_id][0] <= at < spans[run.run_id][1]


def _once(rows: Sequence[RunGpu]) -> list[RunGpu]:
    """An index told twice is one device, the one it meant when it was first told."""
    result: list[RunGpu] = []
    for row in sorted(rows, key=lambda row: row.start):
        same = [r for r in result if row.index is not None and (r.job_id, r.node, r.index) == (row.job_id, row.node, row.index)]
        if not same:
            result.append(row)
    return result


def _ownerless(world: World, runs: Sequence[Run], held: Sequence[RunGpu]) -> list[Run]:
    """Runs nobody told of, known by the devices they hold: owner unknown, and in the totals all the same (case A14)."""
    told = {run.job_id for run in runs if run.start is not None}
    result: list[Run] = []
    for job_id in sorted({row.job_id for row in held} - told):
        rows = [row for row in held if row.job_id == job_id]
        start = min(row.start for row in rows)
        end = max(row.end if row.end is not None else world.scheduler_through or row.start for row in rows)
        result.append(Run(f"{world.cluster}/{job_id}", job_id, "other", start, end, end, None, None, None, (), 0, "unknown"))
    return result
