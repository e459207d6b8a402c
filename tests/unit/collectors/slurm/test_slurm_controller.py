"""`scontrol show job`, `squeue --json` and slurmrestd's jobs: jobs, and which devices of which node they hold."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from collectors.slurm.records import Reading
from collectors.slurm.slices import parse_rules
from tests.unit.collectors.slurm.helpers import picked, rows_of

RECORDINGS = Path(__file__).parent / "recordings"
START = datetime(2025, 10, 23, 10)
DEVICES = ("job_id", "node", "gpu_index", "mig_profile", "gpu_count", "share_ratio", "assignment_method")

#: as Slurm 23.11 prints it with -d
JOB = """\
JobId=7 JobName=train|llama 70b
   UserId=u10(1001) GroupId=lab(100) MCS_label=N/A
   Priority=11603 Nice=0 Account=ec195 QOS=normal
   JobState=RUNNING Reason=None Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   DerivedExitCode=0:0
   RunTime=01:00:00 TimeLimit=1-00:00:00 TimeMin=N/A
   SubmitTime=2025-10-23T09:59:00 EligibleTime=2025-10-23T09:59:00
   AccrueTime=2025-10-23T09:59:00
   StartTime=2025-10-23T10:00:00 EndTime=2025-10-24T10:00:00 Deadline=N/A
   SuspendTime=None SecsPreSuspend=0 LastSchedEval=2025-10-23T10:00:00 Scheduler=Main
   Partition=accel AllocNode:Sid=login-1:2386162
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=gpu-[1-2]
   BatchHost=gpu-1
   NumNodes=2 NumCPUs=8 NumTasks=2 CPUs/Task=4 ReqB:S:C:T=0:0:*:*
   ReqTRES=cpu=8,mem=120G,node=2,billing=99,gres/gpu=4
   AllocTRES=cpu=8,mem=120G,node=2,billing=99,gres/gpu=4,gres/gpu:a100=4
   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*
   JOB_GRES=gpu:a100:4
     Nodes=gpu-[1-2] CPU_IDs=0-3 Mem=61440 GRES=gpu:a100:2(IDX:0,3)
   MinCPUsNode=4 MinMemoryNode=60G MinTmpDiskNode=0
   Features=(null) DelayBoot=00:00:00
   OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)
   Command=/home/u10/run.sh Nodes=gpu-9 CPU_IDs=0 Mem=0 GRES=gpu:8(IDX:0-7)
   WorkDir=/home/u10
   TresPerNode=gres/gpu:2
"""
DETAIL = "     Nodes=gpu-[1-2] CPU_IDs=0-3 Mem=61440 GRES=gpu:a100:2(IDX:0,3)\n"


def with_detail(*lines: str, tres: str = "gres/gpu=4,gres/gpu:a100=4", nodes: str = "gpu-[1-2]") -> str:
    text = JOB.replace(DETAIL, "".join(f"     {line}\n" for line in lines)).replace("gres/gpu=4,gres/gpu:a100=4", tres)
    return text.replace("NodeList=gpu-[1-2]\n", f"NodeList={nodes}\n")


@pytest.mark.parametrize("text", [JOB, " ".join(JOB.split("\n")) + "\n"], ids=["lines", "one line"])
def test_a_job_is_read_with_the_devices_of_each_of_its_nodes(text: str) -> None:
    parsed = rows_of(text, at=None)

    [run] = parsed.tables["runs"]
    assert (run["job_id"], run["name"], run["namespace"], run["queue"], run["qos"]) == (
        "7", "train|llama 70b", "ec195", "accel", "normal",
    )  # fmt: skip
    assert (run["user"], run["state"], run["gpu_count"], run["gpu_model"], run["node_list"]) == (
        "u10", "RUNNING", 4, "a100", "gpu-1,gpu-2",
    )  # fmt: skip
    # the end of a running job is its time limit, not an end
    assert (run["started_at"], run["ended_at"], run["time_limit_seconds"]) == (START, None, 86400)
    assert (run["observed_at"], run["labels"]) == (datetime(2025, 10, 23, 11), '{"batch": true}')
    assert picked(parsed, "run_gpus", *DEVICES) == [
        ("7", "gpu-1", 0, None, 1.0, None, "gres_index"),
        ("7", "gpu-1", 3, None, 1.0, None, "gres_index"),
        ("7", "gpu-2", 0, None, 1.0, None, "gres_index"),
        ("7", "gpu-2", 3, None, 1.0, None, "gres_index"),
    ]
    assert {(row["started_at"], row["ended_at"]) for row in parsed.tables["run_gpus"]} == {(START, None)}


@pytest.mark.parametrize(
    ("lines", "tres", "nodes", "expected"),
    [
        # old versions: GRES_IDX, no count (18.08, 19.05)
        (["Nodes=gpu-1 CPU_IDs=10-11,15,21 Mem=81920 GRES_IDX=gpu(IDX:0,2-3,5)"], "gres/gpu=4", "gpu-1",
         [("gpu-1", index, None, 1.0, None, "gres_index") for index in (0, 2, 3, 5)]),
        # nodes that hold differently stand on lines of their own
        (["Nodes=gpu-1 CPU_IDs=0 Mem=0 GRES=gpu:3(IDX:0-2)", "Nodes=gpu-2 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:7)"], "gres/gpu=4",
         "gpu-[1-2]", [("gpu-1", 0, None, 1.0, None, "gres_index"), ("gpu-1", 1, None, 1.0, None, "gres_index"),
                       ("gpu-1", 2, None, 1.0, None, "gres_index"), ("gpu-2", 7, None, 1.0, None, "gres_index")]),
        # whole cards and a MIG instance in one job, told by the type's name
        (["Nodes=gpu-1 CPU_IDs=0 Mem=0 GRES=gpu:h100:1(IDX:0),gpu:1g.10gb:1(IDX:8)"], "gres/gpu=2", "gpu-1",
         [("gpu-1", 0, None, 1.0, None, "gres_index"), ("gpu-1", 8, "1g.10gb", 1.0, None, "gres_index")]),
        # devices without files have a count only; zero is none
        (["Nodes=gpu-1 CPU_IDs=0 Mem=0 GRES=gpu:a100(CNT:4),gpu:h100:0(IDX:N/A)"], "gres/gpu=4", "gpu-1",
         [("gpu-1", None, None, 4.0, None, "gres_count")]),
        (["Nodes=gpu-1 CPU_IDs=0 Mem=0 GRES=gpu:a100:2,gpu:h100:2"], "gres/gpu=4", "gpu-1",
         [("gpu-1", None, None, 4.0, None, "gres_count")]),
        # shares of each GPU over what it is cut into (23.02 and later)
        (["Nodes=gpu-1 CPU_IDs=0 Mem=0 GRES=shard:h100:3(0/8,3/8)"], "gres/shard=3", "gpu-1",
         [("gpu-1", 1, None, 1.0, 0.375, "gres_index")]),
    ],
)  # fmt: skip
def test_every_way_to_write_what_a_node_gives(lines: list[str], tres: str, nodes: str, expected: list[Any]) -> None:
    parsed = rows_of(with_detail(*lines, tres=tres, nodes=nodes))

    assert picked(parsed, "run_gpus", *DEVICES[1:]) == expected


def test_shares_told_gpu_by_gpu_give_the_job_its_share() -> None:
    parsed = rows_of(with_detail("Nodes=gpu-1 CPU_IDs=0 Mem=0 GRES=shard:h100:3(0/8,3/8)", tres="gres/shard=3", nodes="gpu-1"))

    assert picked(parsed, "runs", "gpu_count", "share_ratio") == [(1, 0.375)]


def test_shares_of_a_named_gpu_are_sized_by_the_node() -> None:
    job = with_detail("Nodes=gpu-1 CPU_IDs=0 Mem=0 GRES=shard:h100:2(IDX:1)", tres="gres/shard=2", nodes="gpu-1")
    node = "NodeName=gpu-1 Gres=gpu:h100:4,gpu:1g.10gb:2,shard:h100:32,shard:1g.10gb:0 State=MIXED\n"
    parsed = rows_of(job, node)

    assert picked(parsed, "runs", "gpu_count", "share_ratio") == [(1, 0.25)]
    assert picked(parsed, "run_gpus", "gpu_index", "gpu_count", "share_ratio") == [(1, 1.0, 0.25)]
    assert "run_gpus" not in rows_of(job).tables, "a share of unknown size would look like the whole card"


def test_a_job_that_has_ended_tells_its_devices_no_longer() -> None:
    """Slurm 22.05 keeps the nodes of a job that has ended, and JOB_GRES, but not what each node gave."""
    ended = JOB.replace("JobState=RUNNING", "JobState=COMPLETED").replace("GRES=gpu:a100:2(IDX:0,3)", "GRES=")
    parsed = rows_of(ended.replace(",gres/gpu=4,gres/gpu:a100=4", ""))

    assert "run_gpus" not in parsed.tables
    assert picked(parsed, "runs", "gpu_count", "gpu_model") == [(4, "a100")]
    assert [note for note in parsed.notes if "do not add up" in note] == []


def test_devices_that_do_not_add_up_to_the_jobs_gpus_are_told_not_at_all() -> None:
    """A file cut off behind the first node's line would leave the second node's cards free."""
    parsed = rows_of(with_detail("Nodes=gpu-1 CPU_IDs=0-3 Mem=61440 GRES=gpu:a100:2(IDX:0,3)"))

    assert "run_gpus" not in parsed.tables
    assert picked(parsed, "runs", "gpu_count") == [(4,)]
    assert [note for note in parsed.notes if "do not add up" in note]


def test_without_details_only_the_jobs_are_known() -> None:
    parsed = rows_of(JOB.replace(DETAIL, "").replace("   JOB_GRES=gpu:a100:4\n", ""))

    assert list(parsed.tables) == ["runs"]


def test_a_cluster_that_does_not_track_gpus_has_their_count_from_the_details() -> None:
    """cases.md B03: AllocTRES without gres/gpu is not 0 GPUs."""
    parsed = rows_of(JOB.replace(",gres/gpu=4,gres/gpu:a100=4", ""))

    assert picked(parsed, "runs", "gpu_count", "gpu_model") == [(4, "a100")]
    assert len(parsed.tables["run_gpus"]) == 4


def test_a_job_that_waits_holds_nothing_and_its_forecast_is_no_start() -> None:
    text = (
        "JobId=1879824 ArrayJobId=1879820 ArrayTaskId=5-10%2 JobName=OOD Code Server UserId=uc-10000 GroupId=xxx MCS_label=N/A "
        "Account=ec195 QOS=normal JobState=PENDING Reason=Priority BatchFlag=1 ExitCode=0:0 RunTime=00:00:00 "
        "TimeLimit=UNLIMITED SubmitTime=2025-10-23T10:01:23 EligibleTime=2025-10-23T10:01:23 StartTime=2025-10-23T13:15:20 "
        "EndTime=2025-10-24T13:15:20 Partition=accel NodeList= SchedNodeList=gpu-15 NumNodes=1-1 NumCPUs=4 "
        "ReqTRES=cpu=8,mem=120G,node=1,billing=99,gres/gpu=1 AllocTRES=(null) MinCPUsNode=4 TresPerJob=gres/gpu:4\n"
    )
    [run] = rows_of(text).tables["runs"]

    assert (run["started_at"], run["ended_at"], run["gpu_count"], run["requested_gpu_count"]) == (None, None, None, 1)
    assert json.loads(run["labels"])["array_task_id"] == "5-10%2"
    assert (run["name"], run["user"], run["time_limit_seconds"]) == ("OOD Code Server", "uc-10000", None)


def test_an_older_version_says_tres_once_for_both() -> None:
    text = JOB.replace("   ReqTRES=cpu=8,mem=120G,node=2,billing=99,gres/gpu=4\n", "").replace("AllocTRES=", "TRES=")

    assert picked(rows_of(text), "runs", "gpu_count", "requested_gpu_count") == [(4, 4)]


def test_a_heterogeneous_job_is_a_run_per_component() -> None:
    second = JOB.replace("JobId=7 ", "JobId=8 HetJobId=7 HetJobOffset=1 ").replace("IDX:0,3", "IDX:1-2")
    parsed = rows_of(JOB.replace("JobId=7 ", "JobId=7 PackJobId=7 PackJobOffset=0 ") + "\n" + second)

    assert [json.loads(row["labels"])["het_offset"] for row in parsed.tables["runs"]] == ["0", "1"]
    assert {(row["job_id"], row["gpu_index"]) for row in parsed.tables["run_gpus"]} == {("7", 0), ("7", 3), ("8", 1), ("8", 2)}


def test_a_job_that_has_ended_closes_what_it_held() -> None:
    text = JOB.replace("JobState=RUNNING", "JobState=COMPLETED").replace(
        "EndTime=2025-10-24T10:00:00", "EndTime=2025-10-23T11:00:00"
    )
    parsed = rows_of(text)

    assert picked(parsed, "runs", "ended_at") == [(datetime(2025, 10, 23, 11),)]
    assert {row["ended_at"] for row in parsed.tables["run_gpus"]} == {datetime(2025, 10, 23, 11)}


def test_times_without_offset_are_read_in_the_zone() -> None:
    parsed = rows_of(JOB, reading=Reading(time_zone="Europe/Oslo"))

    assert {row["started_at"] for row in [*parsed.tables["runs"], *parsed.tables["run_gpus"]]} == {datetime(2025, 10, 23, 8)}


def test_a_job_cut_off_or_broken_is_quarantined_and_the_rest_lands() -> None:
    cut = "JobId=9 JobName=x\n   UserId=u(1) GroupId=g(1) MCS_label=N/A\n   Priority=1\n"
    parsed = rows_of(JOB + cut + JOB.replace("JobId=7", "JobId=10") + "JobId=11 JobNa")

    assert [row["job_id"] for row in parsed.tables["runs"]] == ["7", "10"]
    assert [(reject.line, reject.reason) for reject in parsed.rejects] == [(28, "malformed"), (58, "malformed")]


def test_an_empty_queue_is_no_failure() -> None:
    assert rows_of("No jobs in the system\n").tables == {}


def number(value: int | None) -> dict[str, Any]:
    return {"set": value is not None, "infinite": False, "number": value or 0}


#: slurmrestd v0.0.38 (22.05): plain numbers, one state, the wait status of the exit
PLAIN = {
    "account": "lab", "batch_flag": True, "cluster": "c1", "cpus": 8, "eligible_time": 1761213540, "end_time": 1761300000,
    "exit_code": 256, "gres_detail": ["gpu:a100:2(IDX:0,3)", "gpu:a100:1(IDX:5)"], "array_job_id": 0, "array_task_id": None,
    "het_job_id": 0, "het_job_offset": 0, "job_id": 7, "job_state": "RUNNING", "name": "train", "nodes": "gpu-[10,2]",
    "node_count": 2, "partition": "accel", "qos": "normal", "start_time": 1761213600, "submit_time": 1761213540,
    "suspend_time": 0, "time_limit": 1440, "tres_alloc_str": "cpu=8,mem=4000M,node=2,billing=2,gres/gpu=3",
    "tres_req_str": "cpu=8,mem=4000M,node=2,gres/gpu=3", "user_name": "u", "job_resources": {"nodes": "gpu-[10,2]"},
}  # fmt: skip
#: v0.0.40 (23.11) and later: objects for numbers, lists for states
NESTED = PLAIN | {
    "cpus": number(8), "eligible_time": number(1761213540), "end_time": number(1761300000), "node_count": number(2),
    "exit_code": {"status": ["FAILED"], "return_code": number(1), "signal": {"id": number(None), "name": ""}},
    "array_job_id": number(0), "array_task_id": number(None), "het_job_id": number(0), "het_job_offset": number(0),
    "job_state": ["RUNNING", "COMPLETING"], "start_time": number(1761213600), "submit_time": number(1761213540),
    "time_limit": number(1440),
}  # fmt: skip
#: v0.0.41 (24.05) and later: the nodes' names stand beside what they give
NAMED = NESTED | {
    "nodes": "gpu-[2,10]",
    "job_resources": {"nodes": {"count": 2, "list": "gpu-[2,10]", "allocation": [{"name": "gpu-10"}, {"name": "gpu-2"}]}},
}


@pytest.mark.parametrize("job", [PLAIN, NESTED, NAMED], ids=["22.05", "23.11", "24.05"])
def test_every_layout_of_the_json_says_the_same(job: dict[str, Any]) -> None:
    meta = {"slurm": {"release": "23.11.10", "cluster": "hpc"}}
    parsed = rows_of({"jobs": [job], "last_update": number(1761220800), "meta": meta}, at=None, cluster=None)

    [run] = parsed.tables["runs"]
    assert (run["cluster"], run["job_id"], run["state"], run["exit_code"]) == ("c1", "7", "RUNNING", "1:0")
    assert (run["started_at"], run["ended_at"], run["time_limit_seconds"], run["gpu_count"]) == (START, None, 86400, 3)
    assert run["observed_at"] == datetime(2025, 10, 23, 12)
    # gres_detail follows the order in which the job lists its nodes, not their names'
    assert picked(parsed, "run_gpus", "node", "gpu_index") == [("gpu-10", 0), ("gpu-10", 3), ("gpu-2", 5)]


def test_a_job_whose_end_is_told_has_ended() -> None:
    done = PLAIN | {"job_state": "COMPLETED", "end_time": 1761217200, "exit_code": 0}

    assert picked(rows_of({"jobs": [done]}), "runs", "ended_at", "exit_code") == [(datetime(2025, 10, 23, 11), "0:0")]


def test_details_that_are_not_one_per_node_name_no_devices() -> None:
    parsed = rows_of({"jobs": [PLAIN | {"gres_detail": ["gpu:a100:3(IDX:0-2)"]}]})

    assert "run_gpus" not in parsed.tables


def test_a_partitions_gpus_are_mig_instances_where_a_rule_says_so() -> None:
    job = PLAIN | {"nodes": "gpu-10", "gres_detail": ["gpu:1(IDX:4)"], "tres_alloc_str": "cpu=8,gres/gpu=1", "partition": "mig"}
    parsed = rows_of({"jobs": [job]}, reading=Reading(mig=parse_rules(["mig=1g.5gb"])))

    assert picked(parsed, "runs", "gpu_count", "mig_profile") == [(1, "1g.5gb")]
    assert picked(parsed, "run_gpus", "gpu_index", "mig_profile", "gpu_count") == [(4, "1g.5gb", 1.0)]


def test_a_web_interfaces_bare_list_of_jobs_is_read() -> None:
    assert picked(rows_of([PLAIN]), "runs", "job_id") == [("7",)]


@pytest.mark.parametrize("broken", [None, 7, {}, {"job_id": 8}, NESTED | {"nodes": "gpu-[", "job_resources": None}])
def test_a_job_that_is_none_is_quarantined_and_the_rest_of_the_json_lands(broken: Any) -> None:
    parsed = rows_of({"jobs": [PLAIN, broken]})

    assert picked(parsed, "runs", "job_id") == [("7",)]
    assert [reject.line for reject in parsed.rejects] == [2]


def test_the_recorded_queue_waits() -> None:
    parsed = rows_of((RECORDINGS / "squeue.json").read_text(), at=None, cluster=None)

    assert picked(parsed, "runs", "cluster", "job_id", "state", "started_at", "requested_gpu_count") == [
        ("gpucl", "14", "PENDING", None, 1),
        ("gpucl", "15", "PENDING", None, 1),
    ]
