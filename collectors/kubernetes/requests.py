"""What a pod asks for: the scheduler's sum over its containers, for the resources that are GPUs in some way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from collectors.kubernetes.fields import as_map, as_text, maps
from collectors.kubernetes.quantities import parse_quantity
from collectors.kubernetes.schema import (
    ATTRIBUTES,
    GPU_LIKE,
    MEMORY_OF_NODE,
    MIG,
    NO_GPUS,
    PERCENT_OF_GPU,
    SHARED,
    VIRTUAL_GPUS,
    WHOLE_GPUS,
)


@dataclass
class Requests:
    """GPU resource → how much of it the pod is given at most at one time; how the largest container asks for each GPU (memory,
    percent of its cores); and the names that may be GPUs and are not known."""

    gpus: dict[str, Decimal] = field(default_factory=dict)
    attributes: dict[str, Decimal] = field(default_factory=dict)
    cpu_count: float | None = None
    memory_bytes: int | None = None
    unknown: set[str] = field(default_factory=set)
    other_accelerators: set[str] = field(default_factory=set)


def is_gpu(name: str, own: frozenset[str] = frozenset()) -> bool:
    """Whether a resource is counted in GPUs, slices or parts of them; `own` are names that the user says are GPUs."""
    plain = name.removesuffix(SHARED)
    return (
        plain in WHOLE_GPUS
        or name in own
        or bool(MIG.fullmatch(plain))
        or name in PERCENT_OF_GPU
        or name in MEMORY_OF_NODE
        or name in VIRTUAL_GPUS
    )


def read_requests(spec: Mapping[str, Any], own: frozenset[str] = frozenset()) -> Requests:
    """The pod's requests. Raises ValueError where the number of a GPU resource is none; of CPU and memory it is left empty."""
    containers = [_wanted(container) for container in maps(spec.get("containers"))]
    beginners = [(_wanted(container), _is_sidecar(container)) for container in maps(spec.get("initContainers"))]
    result = Requests()
    for name in {name for wanted in (*containers, *(wanted for wanted, _ in beginners)) for name in wanted}:
        if is_gpu(name, own):
            amount = _at_most(name, containers, beginners)
            if amount:
                result.gpus[name] = amount
        elif name in ATTRIBUTES:
            result.attributes[name] = max(_amount(name, wanted) for wanted in (*containers, *(wanted for wanted, _ in beginners)))
        elif NO_GPUS.search(name):
            result.other_accelerators.add(name)
        elif GPU_LIKE.search(name):
            result.unknown.add(name)
    whole = as_map(as_map(spec.get("resources")).get("requests"))
    cpus = _readable("cpu", whole, containers, beginners)
    memory = _readable("memory", whole, containers, beginners)
    result.cpu_count = float(cpus) if cpus is not None else None
    result.memory_bytes = int(memory) if memory is not None and memory < 2**63 else None
    return result


def _wanted(container: Mapping[str, Any]) -> dict[str, Any]:
    """Requests, and limits of what has no request: of a resource that cannot be overcommitted the API server takes the limit."""
    resources = as_map(container.get("resources"))
    return {**as_map(resources.get("limits")), **as_map(resources.get("requests"))}


def _is_sidecar(container: Mapping[str, Any]) -> bool:
    return as_text(container.get("restartPolicy")) == "Always"


def _at_most(name: str, containers: Iterable[Mapping[str, Any]], beginners: Iterable[tuple[Mapping[str, Any], bool]]) -> Decimal:
    """The scheduler's rule (KEP-753): containers and sidecars run together; an init container runs alone, after the sidecars
    before it."""
    sidecars, peak = Decimal(0), Decimal(0)
    for wanted, is_sidecar in beginners:
        amount = _amount(name, wanted)
        peak = max(peak, sidecars + amount)
        sidecars += amount if is_sidecar else 0
    return max(peak, sidecars + sum((_amount(name, wanted) for wanted in containers), Decimal(0)))


def _amount(name: str, wanted: Mapping[str, Any]) -> Decimal:
    if wanted.get(name) is None:
        return Decimal(0)
    try:
        return parse_quantity(wanted[name])
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _readable(
    name: str, whole: Mapping[str, Any], containers: list[dict[str, Any]], beginners: list[tuple[dict[str, Any], bool]]
) -> Decimal | None:
    """CPU or memory, of which no GPU-hour depends: None where nobody asks for it, or the number is none."""
    try:
        if whole.get(name) is not None:
            return parse_quantity(whole[name])
        if any(name in wanted for wanted in (*containers, *(wanted for wanted, _ in beginners))):
            return _at_most(name, containers, beginners)
    except ValueError:
        pass
    return None
