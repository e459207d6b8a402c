"""Rule 2 of semantics.md, `stranded`: a node that lacks CPU or memory for one more GPU job of its partition's usual size.

Readings taken where the page leaves two:

- a run that does not say how many CPUs it has adds nothing to the node's;
- CPUs per GPU are those the job asked for over its GPUs, also where it asked for a share of one;
- a node that names no partition serves every one of its cluster, and a run without a partition may have asked for any node;
- of several partitions, those without a usual size that day do not count; where none has one the GPU is free;
- a size known by half is tested by half.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from tests.reference.intervals import Span, united
from tests.reference.world import DAY_US, NodeRecord, World

Size = tuple[Fraction | None, Fraction | None]  # CPUs and bytes of memory per GPU


def stranded_spans(world: World, node: str, held: Mapping[str, Span], usual: Mapping[tuple[str, int], Size]) -> list[Span]:
    """When the node has too little for one more job; `held` are the runs' held intervals."""
    records = [record for record in world.nodes if record.node == node]
    mine = [run for run in world.runs if node in run.nodes and run.run_id in held]
    if not records or not mine:
        return []
    edges = {edge for run in mine for edge in held[run.run_id]} | {record.at for record in records}
    edges |= set(range(min(edges) // DAY_US * DAY_US, max(edges) + DAY_US, DAY_US))
    result: list[Span] = []
    for start, end in itertools.pairwise(sorted(edges)):
        record = next((record for record in reversed(records) if record.at <= start), records[0])
        here = [run for run in mine if held[run.run_id][0] <= start and end <= held[run.run_id][1]]
        cpu = sum(((run.cpu_count or Fraction(0)) / len(run.nodes) for run in here), Fraction(0))
        memory = sum((Fraction(run.memory or 0, len(run.nodes)) for run in here), Fraction(0))
        serves = {*record.partitions, ""} if record.partitions else {name for name, _ in usual}
        sizes = [usual[name, start // DAY_US] for name in serves if (name, start // DAY_US) in usual]
        verdicts = [_lacks(record, cpu, memory, size) for size in sizes]
        if any(verdict is not None for verdict in verdicts) and all(verdict is not False for verdict in verdicts):
            result.append((start, end))
    return united(result)


def _lacks(record: NodeRecord, cpu: Fraction, memory: Fraction, size: Size) -> bool | None:
    """Whether a job of the size does not fit beside what runs; None where nothing can be compared."""
    pairs = [(record.cpu_count, cpu, size[0]), (record.memory, memory, size[1])]
    compared = [has - used < wants for has, used, wants in pairs if has is not None and wants is not None]
    return any(compared) if compared else None


def usual_sizes(world: World, holding: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Size]:
    """(partition, day) → the median CPUs and memory per GPU of the GPU runs that held in it; `holding`: (run, day)."""
    runs = {run.run_id: run for run in world.runs}
    found: dict[tuple[str, int], tuple[list[Fraction], list[Fraction]]] = {}
    for run_id, day in sorted(set(holding)):
        run = runs[run_id]
        if run.gpu_count:
            cpus, memories = found.setdefault((run.queue, day), ([], []))
            if run.cpu_count is not None:
                cpus.append(run.cpu_count / Fraction(run.gpu_count))
            if run.memory is not None:
                memories.append(Fraction(run.memory) / Fraction(run.gpu_count))
    return {key: (_median(cpus), _median(memories)) for key, (cpus, memories) in found.items()}


def _median(values: Sequence[Fraction]) -> Fraction | None:
    """`percentile_disc(0.5)`: of two in the middle the lower."""
    return sorted(values)[(len(values) - 1) // 2] if values else None
