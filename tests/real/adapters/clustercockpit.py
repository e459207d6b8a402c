"""ClusterCockpit's job table and cluster description as rows of the landing shape.

The table keeps one average per job (`footprint`), not the series it was made from. That average is landed as a reading
of each of the job's cards for the whole time the job held it, cut at UTC midnight, since a build that opens the samples
of a day opens those of the day before and no others.

- A card has no UUID: it is known by its node and its PCI address, `<hostname>/<pci address>`.
- `acc_utilization_avg` is NVML's utilisation in percent.
- `acc_mem_used_avg` is MiB (the collector divides bytes by 1024 twice), though the cluster description says GB. It is
  added up over the cards of a node and averaged over the job's nodes, so a card's part is the value over cards per node.
- `submit_time` is 0 in all of it: not known.
- A blank address (one job of 2 s, whose utilisation and memory are 0) is no evidence of a card: how many cards the job
  held is known, which ones is not, and there is no reading.
- A card of a node is known to be there while a job holds it. The table holds no job that began before it does, so what
  the other cards did is not known: an inventory record at the node's first job names them, and claims no time.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ClusterShell.NodeSet import NodeSet

from collectors.parsed import Parsed, Row

SOURCE = "clustercockpit"
DAY = timedelta(days=1)
MIB = 1 << 20
#: sub-clusters of one card in two sizes: the description calls both A100
MODELS = {"a40": "NVIDIA A40", "a100": "NVIDIA A100-SXM4-40GB", "a100m80": "NVIDIA A100-SXM4-80GB"}


@dataclass(frozen=True)
class Job:
    """A row of the job table; naive UTC, seconds as told, `cards` as (hostname, PCI address)."""

    job_id: str
    name: str
    project: str
    partition: str
    state: str
    started_at: datetime
    duration_seconds: int
    walltime_seconds: int
    cpu_count: int
    gpu_count: int
    cards: tuple[tuple[str, str], ...]
    utilization_percent: float
    memory_mib: float

    @property
    def ended_at(self) -> datetime:
        return self.started_at + timedelta(seconds=self.duration_seconds)

    @property
    def nodes(self) -> list[str]:
        return sorted({hostname for hostname, _ in self.cards})

    @property
    def memory_bytes_per_card(self) -> int:
        return round(self.memory_mib * MIB * len(self.nodes) / len(self.cards))


def read_jobs(path: Path) -> list[Job]:
    """The jobs of `jobs_alex.csv`; ValueError where a job's number of cards is not the number it lists."""
    with path.open(newline="") as text:
        return [_job(row) for row in csv.DictReader(text)]


def _job(row: Mapping[str, str]) -> Job:
    footprint = json.loads(row["footprint"])
    cards = tuple((host["hostname"], pci) for host in json.loads(row["resources"]) for pci in host.get("accelerators", ()))
    if len(cards) != int(row["num_acc"]):
        raise ValueError(f"job {row['job_id']} has {row['num_acc']} accelerators and lists {len(cards)}")
    return Job(
        job_id=row["job_id"],
        name=row["job_name"] or row["job_id"],
        project=row["project"],
        partition=row["cluster_partition"],
        state=row["job_state"].upper(),
        started_at=datetime.fromtimestamp(int(row["start_time"]), UTC).replace(tzinfo=None),
        duration_seconds=int(row["duration"]),
        walltime_seconds=int(row["walltime"]),
        cpu_count=int(row["num_hwthreads"]),
        gpu_count=len(cards),
        cards=cards,
        utilization_percent=float(footprint["acc_utilization_avg"]),
        memory_mib=float(footprint["acc_mem_used_avg"]),
    )


def read_cards(path: Path) -> dict[str, list[tuple[str, str]]]:
    """Node → its cards as (PCI address, model), in the order of their index, from `cluster_alex.json`."""
    cards: dict[str, list[tuple[str, str]]] = {}
    for part in json.loads(path.read_text())["subClusters"]:
        model = MODELS[part["name"]]
        for node in NodeSet(part["nodes"]):
            cards[node] = [(card["id"], model) for card in part["topology"]["accelerators"]]
    return cards


def to_rows(jobs: list[Job], cards: Mapping[str, list[tuple[str, str]]], cluster: str) -> Parsed:
    """Rows of runs, run_gpus, gpu_samples and gpu_inventory."""
    parsed = Parsed()
    taken_at = max(job.ended_at for job in jobs)
    for job in jobs:
        parsed.add("runs", _run(job, cluster, taken_at))
        for node, pci in job.cards:
            parsed.add("run_gpus", _hold(job, node, pci, cluster))
            if pci:
                parsed.tables.setdefault("gpu_samples", []).extend(_readings(job, node, pci, cluster))
    first_job_at = {node: min(job.started_at for job in jobs if node in job.nodes) for job in jobs for node in job.nodes}
    for node, seen_at in sorted(first_job_at.items()):
        for index, (pci, model) in enumerate(cards[node]):
            place = {"cluster": cluster, "node": node, "gpu_uuid": gpu_uuid(node, pci), "gpu_index": index, "pci_bus_id": pci}
            parsed.add("gpu_inventory", {**place, "gpu_model": model, "seen_at": seen_at})
    return parsed


def gpu_uuid(node: str, pci: str) -> str:
    return f"{node}/{pci}"


def _run(job: Job, cluster: str, taken_at: datetime) -> Row:
    return {
        "cluster": cluster,
        "scheduler": "slurm",
        "job_id": job.job_id,
        "name": job.name,
        "namespace": job.project,
        "queue": job.partition,
        "state": job.state,
        "started_at": job.started_at,
        "ended_at": job.ended_at,
        "time_limit_seconds": job.walltime_seconds,
        "gpu_count": job.gpu_count,
        "cpu_count": job.cpu_count,
        "node_count": len(job.nodes),
        "node_list": ",".join(job.nodes),
        "observed_at": taken_at,
    }


def _hold(job: Job, node: str, pci: str, cluster: str) -> Row:
    return {
        "cluster": cluster,
        "job_id": job.job_id,
        "node": node,
        "gpu_uuid": gpu_uuid(node, pci) if pci else None,
        "gpu_count": 1,
        "started_at": job.started_at,
        "ended_at": job.ended_at,
        "assignment_method": "scheduler",
    }


def _readings(job: Job, node: str, pci: str, cluster: str) -> Iterator[dict[str, Any]]:
    start_at = job.started_at
    while start_at < job.ended_at:
        midnight = datetime(start_at.year, start_at.month, start_at.day) + DAY
        end_at = min(job.ended_at, midnight)
        yield {
            "cluster": cluster,
            "node": node,
            "gpu_uuid": gpu_uuid(node, pci),
            "pci_bus_id": pci,
            "interval_start_at": start_at,
            "interval_ms": (end_at - start_at) // timedelta(milliseconds=1),
            "gpu_utilization_ratio": job.utilization_percent / 100,
            "memory_used_bytes": job.memory_bytes_per_card,
            "source": SOURCE,
        }
        start_at = end_at
