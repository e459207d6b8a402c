"""The first half hour of a new user, by the commands of the README: one with a Slurm cluster, one with Kubernetes.

Each step is a command of its own, as typed in a shell; what it prints has to say what comes next. The Slurm cluster's
accounting is recorded (`tests/unit/collectors/slurm/recordings`); readings of GPUs and the Kubernetes objects are made up in
the form in which nvidia-smi, dcgm-exporter, vLLM and kubectl write them.
"""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.conftest import PROJECT_ROOT, clean_environment
from tests.unit.collectors.dcgm.scrapes import SM, UTIL, scrape
from tests.unit.collectors.inference.servers import vllm
from tests.unit.collectors.kubernetes.made import a_list, container, node, pod

pytestmark = pytest.mark.integration

RECORDINGS = PROJECT_ROOT / "tests" / "unit" / "collectors" / "slurm" / "recordings"


@dataclass(frozen=True)
class Shell:
    """A user's shell in the project's folder, with the variables that the README exports."""

    home: Path
    cluster: str

    def run(self, command: str, *files: Path, code: int = 0) -> str:
        """Type `python -m …`; what it printed. No command may end in a traceback, or with another code than `code`."""
        done = subprocess.run(
            [sys.executable, "-m", *command.split(), *map(str, files)],
            cwd=PROJECT_ROOT,
            env=clean_environment(self.home) | {"GPU_NET_CLUSTER": self.cluster},
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
        printed = done.stdout + done.stderr
        assert "Traceback" not in printed, printed[-4000:]
        assert done.returncode == code, printed[-4000:]
        return printed

    def next_steps(self) -> list[str]:
        """What `status` says is to be done."""
        record = json.loads(self.run("warehouse status --json"))
        return [f"{item['what']}: {item['do']}" for item in record["next"]]

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        with duckdb.connect(str(self.home / "published" / "current" / "gpu_net.duckdb"), read_only=True) as connection:
            return connection.execute(query).fetchall()

    def edit(self, name: str, fill: Mapping[str, Mapping[str, str]]) -> None:
        """Fill cells in as a person does in an editor: `fill` maps a text that the line has to its new cells."""
        path = self.home / "config" / name
        lines = path.read_text(encoding="utf-8").splitlines()
        header = next(line for line in lines if not line.startswith("#")).split(",")
        for text, cells in fill.items():
            (at,) = [place for place, line in enumerate(lines) if text in line and not line.startswith("#")]
            row = dict(zip(header, next(csv.reader([lines[at]])), strict=True)) | dict(cells)
            written = io.StringIO()
            csv.writer(written, lineterminator="").writerow(row.values())
            lines[at] = written.getvalue()
        path.write_text("\n".join([*lines, ""]), encoding="utf-8")


@dataclass(frozen=True)
class Walk:
    """A shell after its half hour, and what each step printed."""

    shell: Shell
    printed: Mapping[str, str]


def drafts(shell: Shell) -> list[dict[str, str]]:
    lines = (shell.home / "config" / "workload_rules.csv").read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


# Slurm


def smi_log(folder: Path) -> Path:
    """`nvidia-smi --query-gpu=… --format=csv -l 10` on the recorded node: its ten cards, every other one at work."""
    lines = ["timestamp, index, uuid, name, utilization.gpu [%], memory.used [MiB], memory.total [MiB], power.draw [W]"]
    start = datetime(2026, 11, 30, 6, 27, 10)
    for moment in (start + number * timedelta(seconds=10) for number in range(32)):
        for index in range(10):
            model, total = ("NVIDIA H100 80GB HBM3", 81559) if index < 6 else ("NVIDIA A100-SXM4-80GB", 81920)
            busy = 90 + moment.second % 7 if index % 2 == 0 else 0
            readings = f"{busy} %, {9000 if busy else 4} MiB, {total} MiB, {300 + index + busy / 8:.2f} W"
            lines.append(f"{moment:%Y/%m/%d %H:%M:%S}.000, {index}, GPU-0000000{index}-aaaa, {model}, {readings}")
    path = folder / "smi.csv"
    path.write_text("\n".join([*lines, ""]))
    return path


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Walk:
    folder = tmp_path_factory.mktemp("slurm")
    shell = Shell(folder / "home", "alder")
    printed = {"empty": shell.run("warehouse run", code=3), "check": shell.run("collectors check")}
    taken = "--at 2026-11-30T06:33:00Z --time-zone UTC"
    jobs = (RECORDINGS / "sacct_parsable_all_steps.txt", RECORDINGS / "scontrol_nodes.txt")
    printed["slurm"] = shell.run(f"collectors slurm {taken}", *jobs)
    printed["smi"] = shell.run("collectors nvidia-smi --node vm --time-zone UTC", smi_log(folder))
    printed["landed"] = shell.run("warehouse status")
    printed["init"] = shell.run("warehouse init")
    price = {"currency": "USD", "cost_per_gpu_hour": "2.50"}
    shell.edit("rate_cards.csv", {"H100": price, "A100": price | {"cost_per_gpu_hour": "1.20"}})
    shell.edit("workload_rules.csv", {"timeout": {"team": "vision", "model": "detector"}, "long-running": {"team": "nlp"}})
    printed["run"] = shell.run("warehouse run")
    return Walk(shell, printed)


def test_an_empty_warehouse_is_told_at_once_what_to_do(slurm: Walk) -> None:
    (line,) = slurm.printed["empty"].splitlines()
    assert line.startswith("nothing has landed")
    assert "collectors check" in line


def test_check_says_what_this_machine_sees_with_a_remedy_for_the_rest(slurm: Walk) -> None:
    for line in slurm.printed["check"].splitlines():
        assert line.startswith("ok") or ";" in line, line


def test_after_collecting_status_leads_to_init(slurm: Walk) -> None:
    assert "python -m warehouse init" in slurm.printed["landed"]


def test_init_asks_for_the_prices_and_names_of_what_was_landed(slurm: Walk) -> None:
    assert "rate_cards.csv: created, lines to fill in: 2" in slurm.printed["init"]
    assert {row["workload"] for row in drafts(slurm.shell)} >= {"timeout", "long-running", "requeued", "arr", "wrap"}
    assert "python -m warehouse run" in slurm.printed["init"]


def test_the_recorded_hours_are_priced_and_named_as_they_were_filled_in(slurm: Walk) -> None:
    held = slurm.shell.ask(
        "select team, round(sum(held_gpu_hours) * 3600, 3) from mart_workload_gpu_hours_daily where team <> 'unknown' group by 1"
    )
    assert dict(held) == {"vision": 132.0, "nlp": 99.0}
    ((seconds,),) = slurm.shell.ask("select round(sum(held_gpu_hours) * 3600, 3) from mart_gpu_net_daily")
    # 375 by the recording's README, of which the MIG job's 6 are held on a seventh of a card
    assert seconds == round(369 + 6 / 7, 3)
    prices = slurm.shell.ask(
        "select gpu_model, round(sum(cost) / sum(gpu_hours), 2) from fct_gpu_ledger_hourly where cost is not null group by 1"
    )
    assert {model: float(price) for model, price in prices} == {"NVIDIA H100 80GB HBM3": 2.5, "NVIDIA A100-SXM4-80GB": 1.2}


def test_the_run_shows_the_hours_and_status_what_is_left_to_do(slurm: Walk) -> None:
    assert "Where the GPU-hours went" in slurm.printed["run"]
    steps = slurm.shell.next_steps()
    assert any("without a team" in step and "warehouse init" in step for step in steps)
    assert not any("no price" in step for step in steps)


def test_init_and_run_again_change_nothing(slurm: Walk) -> None:
    before = {path.name: path.read_bytes() for path in (slurm.shell.home / "config").iterdir()}
    assert slurm.shell.run("warehouse init").count("nothing new") == 4
    assert {path.name: path.read_bytes() for path in (slurm.shell.home / "config").iterdir()} == before
    assert "nothing has landed since the last build" in slurm.shell.run("warehouse build")


# Kubernetes

MORNING = datetime(2026, 11, 2, 8)
CARDS = [f"GPU-{letter}" for letter in "abcd"]


def saved_objects(folder: Path) -> Iterator[Path]:
    """`kubectl get pods,nodes -A -o json` at 8:00, 9:00 and 10:00."""
    for hour in range(3):
        at = MORNING + hour * timedelta(hours=1)
        path = folder / f"{at:%Y-%m-%dT%H-%M-%SZ}.json"
        path.write_bytes(a_list(node("n1", {"nvidia.com/gpu": "4"}), *pods()))
        yield path


def pods() -> Iterator[dict[str, Any]]:
    gpu = {"nvidia.com/gpu": "1"}
    bound = {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-02T08:00:00Z"}]}
    owners = [
        ("chat-7d4f9c8b5-abcde", "ReplicaSet", "chat-7d4f9c8b5", {"pod-template-hash": "7d4f9c8b5"}),
        ("chat-router-6b9c8d7f4-fghij", "ReplicaSet", "chat-router-6b9c8d7f4", {"pod-template-hash": "6b9c8d7f4"}),
        ("fit-17-x2x4z", "Job", "fit-17", {}),
    ]
    for name, kind, owner, labels in owners:
        metadata = {
            "ownerReferences": [{"kind": kind, "name": owner, "uid": f"uid-{owner}", "controller": True}],
            "labels": labels,
        }
        yield pod(name, gpu, metadata=metadata, status=bound, spec={"containers": [container(gpu)]})


def saved_scrapes(folder: Path) -> Iterator[Path]:
    """dcgm-exporter's metrics each minute of the two hours: the first three cards with their pods, the fourth without."""
    names = [made["metadata"]["name"] for made in pods()]
    for minute in range(121):
        at = MORNING + minute * timedelta(minutes=1)
        texts = []
        for index, uuid in enumerate(CARDS):
            labels = {"gpu": str(index), "UUID": uuid, "modelName": "NVIDIA A100-SXM4-80GB", "Hostname": "n1"}
            if index < len(names):
                labels |= {"namespace": "ml", "pod": names[index], "container": "main"}
            busy = 0.6 + minute % 5 / 20 if index != 3 else 0.0
            texts.append(scrape({SM: busy, UTIL: int(busy * 100)}, labels))
        path = folder / f"{at:%Y-%m-%dT%H-%M-%SZ}.prom"
        path.write_text("\n".join([*texts, ""]))
        yield path


def saved_metrics(folder: Path) -> Iterator[Path]:
    for minute in range(0, 121, 2):
        at = MORNING + minute * timedelta(minutes=1)
        path = folder / f"{at:%Y-%m-%dT%H-%M-%SZ}.prom"
        path.write_text(vllm(1000 + 6000 * minute, 100 + 900 * minute, 10 + 20 * minute, model="assistant"))
        yield path


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Walk:
    folder = tmp_path_factory.mktemp("kubernetes")
    places = {name: folder / name for name in ("objects", "scrapes", "metrics")}
    for place in places.values():
        place.mkdir()
    shell = Shell(folder / "home", "cirrus")
    printed = {
        "check": shell.run("collectors check"),
        "kubernetes": shell.run("collectors kubernetes", *saved_objects(places["objects"])),
        "dcgm": shell.run("collectors dcgm --node n1", *saved_scrapes(places["scrapes"])),
        "inference": shell.run(
            "collectors inference --server chat --namespace ml --workload chat --interval 120", *saved_metrics(places["metrics"])
        ),
        "run": shell.run("warehouse run"),
        "status": shell.run("warehouse status"),
        "init": shell.run("warehouse init"),
    }
    return Walk(shell, printed)


def test_a_warehouse_without_prices_is_published_and_asks_for_them(kubernetes: Walk) -> None:
    assert "Where the GPU-hours went" in kubernetes.printed["run"]
    assert "no price is known of NVIDIA A100-SXM4-80GB in cirrus (8 GPU-hours)" in kubernetes.printed["status"]
    assert "3 workloads (100% of the time held) without a team" in kubernetes.printed["status"]


def test_init_names_workloads_and_kinds_as_the_build_does(kubernetes: Walk) -> None:
    built = kubernetes.shell.ask(
        "select namespace, workload, kind from dim_workloads where workload_id not in ('unallocated', 'unknown') order by all"
    )
    assert sorted((row["namespace"], row["workload"], row["kind"]) for row in drafts(kubernetes.shell)) == built
    assert ("ml", "chat", "inference") in built


def test_the_hours_that_the_pods_held_are_theirs(kubernetes: Walk) -> None:
    held = kubernetes.shell.ask("select workload, sum(held_gpu_hours) from mart_workload_gpu_hours_daily group by 1 order by 1")
    assert held == [("chat", 2.0), ("chat-router", 2.0), ("fit-17", 2.0)]
    ((tokens,),) = kubernetes.shell.ask(
        "select sum(output_tokens) from fct_inference_hourly where workload_id = 'cirrus/ml/chat'"
    )
    assert tokens == 900 * 120


def test_a_saved_edit_leads_to_run_and_a_broken_line_is_told_with_its_remedy(kubernetes: Walk) -> None:
    kubernetes.shell.edit("rate_cards.csv", {"A100": {"currency": "USD", "cost_per_gpu_hour": "1.80"}})
    future = time.time() + 60
    os.utime(kubernetes.shell.home / "config" / "rate_cards.csv", (future, future))
    assert kubernetes.shell.next_steps()[0] == "a file of config/ was edited since the last build: python -m warehouse run"
    kubernetes.shell.edit("rate_cards.csv", {"A100": {"cost_per_gpu_hour": "1,80"}})
    first = kubernetes.shell.next_steps()[0]
    assert "rate_cards.csv, line " in first
    assert "cost_per_gpu_hour" in first
