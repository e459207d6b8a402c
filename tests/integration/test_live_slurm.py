"""`python -m collectors slurm` against a real Slurm: one node, slurmdbd and MariaDB, on loopback ports of this test's own.

Needs the Debian packages slurm-wlm, slurmdbd, mariadb-server-core, mariadb-client-core, and root (slurmd starts the jobs).
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

DAEMONS = ("mariadbd", "mariadb-install-db", "mariadb", "slurmdbd", "slurmctld", "slurmd")
CLUSTER, NODE = "tiny", "tiny1"
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


@dataclass
class Slurm:
    """A running Slurm; `ask` runs one of its commands and returns what it prints."""

    environment: dict[str, str]

    def ask(self, *command: str) -> str:
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(is_so: Callable[[], bool], what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"{what}: not within {seconds:.0f} s"
        time.sleep(0.5)


def succeeds(*command: str, environment: dict[str, str]) -> bool:
    return subprocess.run(command, env=environment, capture_output=True, timeout=30, check=False).returncode == 0


def write_configuration(folder: Path, database_port: int) -> None:
    host = socket.gethostname().split(".")[0]
    dbd_port, controller_port, node_port = free_port(), free_port(), free_port()
    (folder / "slurmdbd.conf").write_text(f"""
        AuthType=auth/none
        DbdHost=localhost
        DbdPort={dbd_port}
        SlurmUser=root
        StorageType=accounting_storage/mysql
        StorageHost=127.0.0.1
        StoragePort={database_port}
        StorageUser=slurm
        StoragePass=slurm
        StorageLoc=slurm
        PidFile={folder}/slurmdbd.pid
        LogFile={folder}/slurmdbd.log
    """)
    (folder / "slurmdbd.conf").chmod(0o600)
    for number in range(4):
        (folder / f"gpu{number}").touch()  # stands for a device: Slurm only wants it to be there
    for number in range(2):
        (folder / f"mig{number}").touch()
    (folder / "gres.conf").write_text(
        f"Name=gpu Type=h100 File={folder}/gpu[0-3]\nName=gpu Type=1g.10gb File={folder}/mig[0-1]\n"
        + "".join(f"Name=shard Type=h100 Count=8 File={folder}/gpu{number}\n" for number in range(4))
    )
    (folder / "slurm.conf").write_text(f"""
        ClusterName={CLUSTER}
        SlurmctldHost=localhost(127.0.0.1)
        SlurmctldPort={controller_port}
        SlurmdPort={node_port}
        AuthType=auth/none
        CredType=cred/none
        SlurmUser=root
        SlurmdUser=root
        ProctrackType=proctrack/linuxproc
        TaskPlugin=task/none
        JobAcctGatherType=jobacct_gather/none
        SelectType=select/cons_tres
        SelectTypeParameters=CR_Core
        SchedulerParameters=batch_sched_delay=0,sched_interval=1
        GresTypes=gpu,shard
        AccountingStorageType=accounting_storage/slurmdbd
        AccountingStorageHost=127.0.0.1
        AccountingStoragePort={dbd_port}
        AccountingStorageTRES=gres/gpu,gres/gpu:h100,gres/gpu:1g.10gb,gres/shard
        StateSaveLocation={folder}/state
        SlurmdSpoolDir={folder}/spool
        SlurmctldPidFile={folder}/slurmctld.pid
        SlurmdPidFile={folder}/slurmd.pid
        SlurmctldLogFile={folder}/slurmctld.log
        SlurmdLogFile={folder}/slurmd.log
        SlurmdParameters=config_overrides
        ReturnToService=2
        MpiDefault=none
        NodeName={NODE} NodeAddr=127.0.0.1 NodeHostname={host} CPUs=8 RealMemory=4000 Gres=gpu:h100:4,gpu:1g.10gb:2,shard:h100:32
        PartitionName=gpu Nodes={NODE} Default=YES MaxTime=60 State=UP
    """)


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    missing = [name for name in DAEMONS if not shutil.which(name, path=PATH)]
    if missing:
        pytest.skip(f"no {', '.join(missing)} here: apt-get install slurm-wlm slurmdbd mariadb-server-core mariadb-client-core")
    if os.geteuid() != 0:
        pytest.skip("slurmd needs root to start jobs")
    folder = Path(tempfile.mkdtemp(prefix="gn-slurm-"))  # short: the path of a socket has 108 characters at most
    environment = {**os.environ, "PATH": PATH, "SLURM_CONF": str(folder / "slurm.conf")}
    started: list[subprocess.Popen[bytes]] = []

    def start(*command: str) -> None:
        with (folder / f"{command[0]}.out").open("wb") as out:
            started.append(subprocess.Popen(command, env=environment, stdout=out, stderr=out, cwd=folder))

    try:
        port = free_port()
        database = ["--no-defaults", f"--datadir={folder}/data", "--user=root"]
        assert succeeds("mariadb-install-db", *database, "--auth-root-authentication-method=normal", environment=environment)
        start("mariadbd", *database, f"--socket={folder}/sock", f"--port={port}", "--bind-address=127.0.0.1")
        sql = "create user slurm@'127.0.0.1' identified by 'slurm'; grant all on *.* to slurm@'127.0.0.1'"
        client = ["mariadb", "--no-defaults", f"--socket={folder}/sock", "-uroot", "-e"]
        wait_until(lambda: succeeds(*client, "select 1", environment=environment), "MariaDB answers")
        assert succeeds(*client, sql, environment=environment)
        write_configuration(folder, port)
        (folder / "state").mkdir()
        (folder / "spool").mkdir()
        start("slurmdbd", "-D")
        wait_until(lambda: succeeds("sacctmgr", "-n", "show", "cluster", environment=environment), "slurmdbd answers")
        succeeds("sacctmgr", "-i", "add", "cluster", CLUSTER, environment=environment)
        start("slurmctld", "-D", "-c")
        start("slurmd", "-D", "-N", NODE)
        running = Slurm(environment)
        wait_until(
            lambda: "idle" in subprocess.run(["sinfo", "-h", "-o", "%T"], env=environment, capture_output=True, text=True).stdout,
            "the node is idle",
        )
        yield running
    finally:
        for process in reversed(started):
            process.terminate()
        for process in reversed(started):
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def test_a_live_slurm_lands_its_jobs_their_gpus_and_its_nodes(
    slurm: Slurm, run_cli: Callable[..., subprocess.CompletedProcess[str]], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PATH", "SLURM_CONF"):
        monkeypatch.setenv(name, slurm.environment[name])
    before = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
    batch = slurm.ask(
        "sbatch", "--parsable", "--job-name=train|llama 70b", "--gres=gpu:h100:2", "--output=/dev/null", "--wrap=sleep 3"
    )
    plain = slurm.ask("sbatch", "--parsable", "--job-name=prepare", "--output=/dev/null", "--wrap=sleep 1")
    slurm.ask("srun", "--job-name=look", "--gres=gpu:1", "sleep", "1")
    wait_until(
        lambda: not slurm.ask("squeue", "-h", "-t", "all", "-j", f"{batch},{plain}", "-o", "%T").replace("COMPLETED", "").strip(),
        "jobs end",
    )
    slurm.ask("scontrol", "update", f"NodeName={NODE}", "State=DRAIN", "Reason=noisy fan")
    time.sleep(2)
    slurm.ask("scontrol", "update", f"NodeName={NODE}", "State=RESUME")
    hold = ("sbatch", "--parsable", "--output=/dev/null", "--wrap=sleep 600")
    still = slurm.ask(*hold, "--job-name=serve", "--gres=gpu:h100:1,gpu:1g.10gb:1")
    part = slurm.ask(*hold, "--job-name=notebook", "--gres=shard:2")
    waiting = slurm.ask(*hold, "--job-name=big", "--gres=gpu:h100:4")
    wait_until(
        lambda: slurm.ask("squeue", "-h", "-j", f"{still},{part}", "-o", "%T").split() == ["RUNNING"] * 2, "the servers run"
    )
    slurm.ask("scontrol", "update", f"NodeName={NODE}", "State=DRAIN", "Reason=bad fan")
    wait_until(
        lambda: (
            slurm.ask("sacct", "-nX", "-j", f"{batch},{still},{part}", "-o", "State").split() == ["COMPLETED", *["RUNNING"] * 2]
        ),
        "accounted",
    )
    after = datetime.now(UTC).replace(tzinfo=None) + timedelta(seconds=2)

    done = run_cli("collectors", "slurm", "--since", f"{before - timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}", "--json")
    saved = home / "jobs.txt"
    saved.write_text(slurm.ask("scontrol", "-d", "show", "job", still))
    again = run_cli("collectors", "slurm", str(saved), "--cluster", "saved", "--json")
    slurm.ask("scancel", still, part, waiting)

    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["cluster"] == CLUSTER
    runs = landed(home, "runs")
    assert {name: (row["state"], row["gpu_count"], row["gpu_model"], row["share_ratio"]) for name, row in runs.items()} == {
        "train|llama 70b": ("COMPLETED", 2, "h100", None),
        "prepare": ("COMPLETED", 0, None, None),
        "look": ("COMPLETED", 1, "h100", None),
        "serve": ("RUNNING", 2, None, None),  # of which card the instance is, its type does not tell
        "notebook": ("RUNNING", 1, None, 0.25),  # 2 of the 8 shards of a card
        "big": ("PENDING", None, None, None),
    }
    trained = runs["train|llama 70b"]
    assert before <= trained["started_at"] <= trained["ended_at"] - timedelta(seconds=3) <= after
    told = slurm.ask("sacct", "-nXP", "-j", batch, "-o", "ElapsedRaw")
    assert (trained["ended_at"] - trained["started_at"]).total_seconds() == int(told)
    assert (trained["node_list"], trained["queue"], trained["job_id"]) == (NODE, "gpu", batch)
    assert runs["serve"]["ended_at"] is None
    assert before <= runs["serve"]["started_at"] <= runs["serve"]["observed_at"] <= after
    assert (runs["big"]["started_at"], runs["big"]["requested_gpu_count"]) == (None, 4)
    assert [json.loads(runs[name]["labels"]) for name in ("prepare", "look")] == [{"batch": True}, {"interactive": True}]

    held = [row for row in rows_of(home, "run_gpus") if row["cluster"] == CLUSTER]
    by_kind = {(row["job_id"], row["mig_profile"]): row for row in held}
    assert {key: (row["node"], row["gpu_count"], row["share_ratio"]) for key, row in by_kind.items()} == {
        (still, None): (NODE, 1, None),
        (still, "1g.10gb"): (NODE, 1, None),
        (part, None): (NODE, 1, 0.25),
    }
    # the instances stand behind the four cards in the node's list of GPUs
    assert by_kind[still, "1g.10gb"]["gpu_index"] in (4, 5)
    assert {by_kind[still, None]["gpu_index"], by_kind[part, None]["gpu_index"]} < set(range(4))
    assert by_kind[still, None]["gpu_index"] != by_kind[part, None]["gpu_index"]
    assert {(row["started_at"], row["ended_at"]) for row in held} == {
        (runs[name]["started_at"], None) for name in ("serve", "notebook")
    }

    [node] = rows_of(home, "nodes")
    assert (node["node"], node["gpu_count"], node["cpu_count"]) == (NODE, 6, 8)
    past, present = sorted(rows_of(home, "node_states"), key=lambda row: row["started_at"])
    assert (past["state"], past["reason"], present["state"], present["reason"]) == ("drained", "noisy fan", "draining", "bad fan")
    assert before <= past["started_at"] < past["ended_at"] <= present["started_at"] <= after
    assert present["ended_at"] is None

    assert again.returncode == 0, again.stderr
    kept = [row for row in rows_of(home, "run_gpus") if row["cluster"] == "saved"]
    assert {row["gpu_index"] for row in kept} == {row["gpu_index"] for row in held if row["job_id"] == still}


def rows_of(home: Path, table: str) -> list[dict[str, Any]]:
    return list(pl.read_parquet(home / f"raw/slurm/{table}/**/*.parquet").iter_rows(named=True))


def landed(home: Path, table: str) -> dict[str, dict[str, Any]]:
    """The live command's rows by name."""
    return {row["name"]: row for row in rows_of(home, table) if row["cluster"] == CLUSTER}
