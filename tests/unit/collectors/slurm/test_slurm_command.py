"""`python -m collectors slurm`: what lands, what the command says, and what it exits with."""

from __future__ import annotations

import json
import stat
from datetime import datetime
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner, Result

from collectors.__main__ import main
from collectors.slurm import client as client_module
from warehouse.landing.outcomes import outcome_frame

RECORDINGS = Path(__file__).parent / "recordings"
RECORDED = RECORDINGS / "sacct_epoch.txt"
HEADER = "Cluster|JobIDRaw|JobName|State|Start|End|AllocTRES\n"
ROW = "{cluster}|42|train|COMPLETED|1796020000|1796023600|gres/gpu={gpus}\n"

#: a job of the recording, one that waits, and one cut off
HELD = (
    "JobId=12 JobName=long UserId=root(0) GroupId=root(0) MCS_label=N/A JobState=RUNNING RunTime=00:10:00 BatchFlag=1 "
    "StartTime=1796020061 EndTime=1796030000 Partition=gpu NodeList=vm AllocTRES=cpu=1,gres/gpu=1,gres/gpu:h100=1 "
    "JOB_GRES=gpu:h100:1   Nodes=vm CPU_IDs=0 Mem=0 GRES=gpu:h100:1(IDX:3)   MinCPUsNode=1 \n"
    "JobId=14 JobName=het UserId=root(0) GroupId=root(0) MCS_label=N/A JobState=PENDING StartTime=1796020368 NodeList=(null)\n"
    "JobId=15 JobName=he"
)

#: stands for Slurm's commands: answers by their names and options, and refuses what the real ones would not get
FAKE = r"""#!/bin/sh
case "$(basename "$0") $*" in
  "sacct --version") echo "slurm 22.05.8" ;;
  "sacct --helpformat") 
    echo "Account AllocTRES Cluster ElapsedRaw End Eligible"; echo "JobID JobIDRaw JobName NodeList  State  Start Submit" ;;
  "sacct "*--endtime=2026-11-30T07:00:00*)
    [ "$TZ $SLURM_TIME_FORMAT" = "UTC %s" ] || exit 9
    printf '%s\n' "$*" > "$(dirname "$0")/asked"
    cat "$(dirname "$0")/answer" ;;
  "scontrol show config") echo "ClusterName             = gpucl" ;;
  "scontrol --all --oneliner show node")
    echo "NodeName=vm CPUTot=2 State=IDLE+DRAIN Gres=gpu:h100:4 Reason=fan [root@1796020000]" ;;
  "scontrol --all --oneliner --details show job") cat "$(dirname "$0")/jobs" ;;
  "sacctmgr --parsable2 --readonly show event event=node start="*" format="*)
    echo "Cluster|NodeName|TimeStart|TimeEnd|State|Reason"
    echo "gpucl|vm|1795900000|1795910000|DOWN*|Not responding"
    echo "gpucl|vm|1796020000|Unknown|DRAIN|fan" ;;
  *) echo "unknown option" >&2; exit 1 ;;
esac
"""


def slurm(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["slurm", *(str(argument) for argument in arguments)])


def landed(home: Path, table: str) -> pl.DataFrame:
    return pl.read_parquet(sorted((home / "raw" / "slurm" / table).rglob("*.parquet")))


def files_of(home: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted((home / "raw").rglob("*.parquet"))}


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Slurm's commands on the path, answering with the recording."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sacct", "sacctmgr", "scontrol"):
        (folder / name).write_text(FAKE)
        (folder / name).chmod(stat.S_IRWXU)
    (folder / "jobs").write_text(HELD)
    (folder / "answer").write_bytes(RECORDED.read_bytes().replace(b"train|llama", b"train llama").replace(b"|", b"\x1f"))
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def test_a_saved_output_lands_with_what_it_knows_and_until_when(home: Path) -> None:
    result = slurm("--sacct-file", RECORDED)

    assert result.exit_code == 0, result.output
    assert "landed 20 runs, 0 quarantined, 2026-11-30T06:27:16Z to 2026-11-30T06:32:21Z" in result.output
    runs = landed(home, "runs")
    assert runs["cluster"].unique().to_list() == ["gpucl"]
    held = (pl.col("ended_at") - pl.col("started_at")).dt.total_seconds()
    assert runs.select((held * pl.col("gpu_count")).sum()).item() == 375
    outcomes = outcome_frame(home / "raw")
    assert outcomes is not None
    assert outcomes["data_through_at"].to_list() == [datetime(2026, 11, 30, 6, 32, 21)]


def test_landing_a_saved_output_twice_changes_nothing(home: Path) -> None:
    slurm("--sacct-file", RECORDED)
    before = files_of(home)
    result = slurm("--sacct-file", RECORDED)

    assert result.exit_code == 0, result.output
    assert files_of(home) == before


def test_several_outputs_land_together_dated_each_by_itself(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text(HEADER + ROW.format(cluster="gpucl", gpus=1))
    result = slurm("--sacct-file", RECORDED, other)

    assert result.exit_code == 0, result.output
    runs = landed(home, "runs")
    assert runs.height == 21
    assert runs.filter(job_id="42")["observed_at"].to_list() == [datetime(2026, 11, 30, 7, 26, 40)]


def test_one_id_in_two_clusters_stays_two_jobs_whatever_the_option_says(home: Path, tmp_path: Path) -> None:
    output = tmp_path / "saved.txt"
    output.write_text(HEADER + ROW.format(cluster="a", gpus=1) + ROW.format(cluster="b", gpus=8) + ROW.format(cluster="", gpus=2))
    result = slurm("--cluster", "c", "--sacct-file", output)

    assert result.exit_code == 0, result.output  # cases.md B13
    assert landed(home, "runs").select("cluster", "job_id", "gpu_count").sort("cluster").rows() == [
        ("a", "42", 1.0),
        ("b", "42", 8.0),
        ("c", "42", 2.0),
    ]
    assert "several clusters (a, b)" in result.output


def test_rows_without_a_cluster_beside_several_are_quarantined(home: Path, tmp_path: Path) -> None:
    output = tmp_path / "saved.txt"
    output.write_text(HEADER + "".join(ROW.format(cluster=name, gpus=1) for name in ("a", "b", "")))
    result = slurm("--sacct-file", output)

    assert result.exit_code == 4
    assert landed(home, "runs").height == 2
    assert slurm("--strict", "--at", "2026-12-01", "--sacct-file", output).exit_code == 1


def test_the_option_names_the_cluster_where_the_output_names_one_or_none(home: Path, tmp_path: Path) -> None:
    output = tmp_path / "saved.txt"
    output.write_text(HEADER + ROW.format(cluster="", gpus=1))

    assert slurm("--cluster", "mine", "--sacct-file", output, RECORDED).exit_code == 0
    assert landed(home, "runs")["cluster"].unique().to_list() == ["mine"]


def test_an_output_that_names_no_cluster_needs_one(home: Path, tmp_path: Path) -> None:
    output = tmp_path / "saved.txt"
    output.write_text(HEADER + ROW.format(cluster="", gpus=1))
    result = slurm("--sacct-file", output)

    assert result.exit_code == 2
    assert "--cluster" in result.output


def test_a_given_time_dates_the_output(home: Path) -> None:
    assert slurm("--sacct-file", RECORDED, "--at", "2026-11-30T08:00:00Z").exit_code == 0
    assert landed(home, "runs")["observed_at"].unique().to_list() == [datetime(2026, 11, 30, 8)]


@pytest.mark.parametrize("delimiter", [r"\x1f", "\x1f", "|"])
def test_a_delimiter_may_be_written_as_an_escape(home: Path, delimiter: str) -> None:
    name = "sacct_epoch.txt" if delimiter == "|" else "sacct_unit_separator.txt"
    result = slurm("--sacct-file", RECORDINGS / name, "--delimiter", delimiter)

    assert result.exit_code == 0, result.output


def test_a_tab_and_named_fields_are_understood(home: Path, tmp_path: Path) -> None:
    output = tmp_path / "saved.txt"
    output.write_text("42\tCOMPLETED\t2026-11-30T00:00:00\t2026-11-30T01:00:00\n")
    arguments = ["--fields", "JobIDRaw, State,Start End", "--delimiter", r"\t", "--time-zone", "Europe/Oslo", "--cluster", "c"]
    result = slurm("--sacct-file", output, *arguments)

    assert result.exit_code == 0, result.output
    assert landed(home, "runs")["started_at"].to_list() == [datetime(2026, 11, 29, 23)]


def test_a_header_alone_lands_nothing(home: Path, tmp_path: Path) -> None:
    output = tmp_path / "saved.txt"
    output.write_text(HEADER)
    result = slurm("--sacct-file", output, "--cluster", "c")

    assert result.exit_code == 0, result.output
    assert not list((home / "raw").rglob("*.parquet"))


def test_one_of_several_files_that_cannot_be_read_is_quarantined_and_the_others_land(home: Path) -> None:
    result = slurm(RECORDED, RECORDINGS / "sacct_long_fixed_width.txt", "--cluster", "c")

    assert result.exit_code == 4
    assert "quarantined sacct_long_fixed_width.txt: malformed" in result.output
    assert landed(home, "runs").height == 20


def test_an_output_that_cannot_be_read_fails_with_its_remedy_and_leaves_an_outcome(home: Path) -> None:
    result = slurm("--sacct-file", RECORDINGS / "sacct_long_fixed_width.txt", "--cluster", "c")

    assert result.exit_code == 1
    assert "--parsable2" in result.output
    outcomes = outcome_frame(home / "raw")
    assert outcomes is not None
    assert outcomes["status"].to_list() == ["failed"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([RECORDED, "--mig-partition", "mig"], "mig=1g.5gb"),
        ([RECORDED, "--mig-partition", "mig=tiny"], "mig=1g.5gb"),
        (["--sacct-file", RECORDED, "--since", "2026-11-30"], "--since"),
        (["--sacct-file", RECORDED, "--time-zone", "Oslo/Europe"], "--time-zone"),
        (["--sacct-file", RECORDED, "--time-zone", "../etc"], "--time-zone"),
        (["--sacct-file", RECORDED, "--delimiter", ""], "--delimiter"),
        (["--since", "2026-11-30", "--until", "2026-11-29"], "--since"),
    ],
)
def test_wrong_usage_is_said_before_anything_is_read(home: Path, arguments: list[object], message: str) -> None:
    result = slurm(*arguments)

    assert result.exit_code == 2
    assert message in result.output


def test_the_live_commands_land_jobs_nodes_and_states(home: Path, commands: Path) -> None:
    result = slurm("--since", "2026-11-30", "--until", "2026-11-30T07:00:00Z", "--at", "2026-11-30T07:00:05Z")

    assert result.exit_code == 4, result.output
    assert "quarantined scontrol show job:3: malformed" in result.output
    assert landed(home, "runs").height == 20
    assert landed(home, "run_gpus").select(
        "job_id", "node", "gpu_uuid", "gpu_index", "gpu_count", "assignment_method"
    ).rows() == [("12", "vm", None, 3, 1.0, "gres_index")]
    assert landed(home, "runs")["observed_at"].unique().to_list() == [datetime(2026, 11, 30, 7, 0, 5)]
    assert landed(home, "nodes").select("cluster", "node", "gpu_count").rows() == [("gpucl", "vm", 4)]
    # the interval that has ended comes from the accounting, the present state from the node
    assert landed(home, "node_states").select("state", "reason", "started_at", "ended_at").sort("started_at").rows() == [
        ("down", "Not responding", datetime(2026, 11, 28, 21, 6, 40), datetime(2026, 11, 28, 23, 53, 20)),
        ("drained", "fan", datetime(2026, 11, 30, 6, 26, 40), None),
    ]
    outcomes = outcome_frame(home / "raw")
    assert outcomes is not None
    assert outcomes["data_through_at"].unique().to_list() == [datetime(2026, 11, 30, 7)]
    assert outcomes["source_version"].unique().to_list() == ["slurm 22.05.8"]
    asked = (commands / "asked").read_text()
    assert "--allusers --duplicates --parsable2 --delimiter=\x1f --starttime=2026-11-30T00:00:00" in asked
    assert "AllocTRES,JobName" in asked
    assert "QOS" not in asked, "this sacct does not know it"


def test_without_since_the_last_day_is_asked_for(home: Path, commands: Path) -> None:
    result = slurm("--until", "2026-11-30T07:00:00Z", "--at", "2026-11-30T07:00:05Z", "--cluster", "mine")

    assert result.exit_code == 4, result.output
    assert "--starttime=2026-11-29T07:00:00" in (commands / "asked").read_text()
    assert landed(home, "runs")["cluster"].unique().to_list() == ["mine"]


def test_nodes_that_cannot_be_read_are_a_gap_and_the_jobs_land(home: Path, commands: Path) -> None:
    for name in ("sacctmgr", "scontrol"):
        (commands / name).write_text("#!/bin/sh\nexit 1\n")
    result = slurm("--until", "2026-11-30T07:00:00Z", "--at", "2026-11-30T07:00:05Z", "--cluster", "mine")

    assert result.exit_code == 0, result.output
    assert "no nodes and no node states" in result.output
    outcomes = outcome_frame(home / "raw")
    assert outcomes is not None
    gaps = json.loads(outcomes["gaps"][0])
    assert sorted(gaps) == ["node_states", "nodes", "run_gpus"]
    assert "scontrol" in gaps["nodes"]
    assert landed(home, "runs").height == 20


def test_a_controller_without_a_name_needs_one_from_us(home: Path, commands: Path) -> None:
    (commands / "scontrol").write_text("#!/bin/sh\necho nothing\n")
    (commands / "answer").write_text("JobIDRaw\x1fState\x1fStart\x1fEnd\n")

    assert slurm("--until", "2026-11-30T07:00:00Z", "--at", "2026-11-30T07:00:05Z").exit_code == 2


def test_a_database_that_is_down_is_a_failed_source(home: Path, commands: Path) -> None:
    (commands / "sacct").write_text("#!/bin/sh\necho 'Connection refused' >&2; exit 1\n")
    result = slurm("--cluster", "mine")

    assert result.exit_code == 1
    assert "Connection refused" in result.output
    assert "slurmdbd" in result.output


def test_a_database_that_does_not_answer_is_a_failed_source(home: Path, commands: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (commands / "sacct").write_text("#!/bin/sh\nexec sleep 5\n")
    monkeypatch.setattr(client_module, "TIMEOUT_SECONDS", 0.2)
    result = slurm("--cluster", "mine")

    assert result.exit_code == 1
    assert "ask for less" in result.output


def test_a_host_without_slurm_says_where_to_go(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = slurm("--cluster", "mine")

    assert result.exit_code == 1
    assert "slurm FILE" in result.output
