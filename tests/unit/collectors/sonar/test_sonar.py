"""Sonar's snapshots: processes and cards of nodes, with a scheduler and without, through every version of the format."""

from __future__ import annotations

import gzip
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner, Result

from collectors.__main__ import main
from collectors.command import SourceFailedError
from collectors.parsed import Parsed
from collectors.sonar.parse import parse_sonar
from collectors.sonar.rows import to_rows
from collectors.sonar.snapshots import by_node

T0 = datetime(2023, 6, 23, 5, 5, 1)
STEP = timedelta(minutes=5)
CONFIG = {
    "name": "ml", "nodes": [
        {"hostname": "ml8.uio.no", "description": "2x48 AMD EPYC 7642, 1TB, 4x NVIDIA A100 @ 40GB", "cpu_cores": 192,
         "mem_gb": 1024, "gpu_cards": 4, "gpumem_gb": 160},
        {"hostname": "gpu-[1-2].fox", "description": "2x24 AMD, 503 GB, 2x NVIDIA A100 @ 40GB, 1x NVIDIA H100 @ 80GB",
         "cpu_cores": 96, "mem_gb": 503, "gpu_cards": 3, "gpumem_gb": 160},
    ],
}  # fmt: skip


def rows(*files: Any, is_batch: bool = False) -> Parsed:
    snapshots, machines, rejects = [], [], []
    for place, content in enumerate(files):
        text = content if isinstance(content, str) else json.dumps(content)
        found = parse_sonar(text.encode(), f"saved{place}", is_batch=is_batch)
        snapshots += found.snapshots
        machines += found.machines
        rejects += found.rejects
    parsed = to_rows(by_node(snapshots), machines, "c", STEP)
    parsed.rejects += rejects
    return parsed


def picked(parsed: Parsed, table: str, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row.get(column) for column in columns) for row in parsed.tables.get(table, [])]


def line(
    job: int, mask: str, percent: object = 0, kib: int = 0, minute: int = 0, user: str = "u1", command: str = "python"
) -> str:
    at = (T0 + timedelta(minutes=minute)).isoformat()
    return f"{at}.224181967+00:00,ml8.uio.no,192,{user},{job},{command},744.7,196986336,{mask},{percent},50,{kib}\n"


def test_the_mask_is_binary_text_and_a_card_is_the_sum_of_its_processes() -> None:
    parsed = rows(line(7, "1000", 84, 1024) + line(8, "11", 90, 2048) + line(9, "1", 80) + line(10, "0"), CONFIG)

    assert picked(parsed, "gpu_samples", "gpu_uuid", "gpu_index", "gpu_utilization_ratio", "memory_used_bytes") == [
        # 45 % and 80 %: at most all of it; one process tells its memory in percent of the card
        ("ml8.uio.no/0", 0, 1.0, (1 << 20) + (20 << 30)),
        ("ml8.uio.no/1", 1, 0.45, 1 << 20),
        ("ml8.uio.no/2", 2, 0.0, 0),
        ("ml8.uio.no/3", 3, 0.84, 1 << 20),
    ]
    assert picked(parsed, "gpu_samples", "interval_start_at", "interval_ms", "source")[0] == (
        datetime(2023, 6, 23, 5, 0, 1, 224181), 300_000, "sonar",
    )  # fmt: skip
    assert picked(parsed, "gpu_processes", "gpu_uuid", "pid", "job_id", "sm_utilization_ratio", "memory_used_bytes")[:2] == [
        ("ml8.uio.no/3", 7, "ml8.uio.no/7", 0.84, 1 << 20),
        ("ml8.uio.no/0", 8, "ml8.uio.no/8", 0.45, 1 << 20),
    ]


def test_memory_told_in_percent_is_a_part_of_the_card() -> None:
    parsed = rows(line(9, "1", 80), CONFIG)

    assert picked(parsed, "gpu_samples", "memory_used_bytes", "memory_total_bytes")[0] == (20 << 30, 40 << 30)
    [unknown] = rows(line(9, "1", 80)).tables["gpu_samples"]
    assert "memory_used_bytes" not in unknown
    assert unknown["missing"] == {"memory_used_bytes": "not_supported"}


def test_a_process_group_is_a_run_and_holds_the_cards_it_is_seen_on() -> None:
    text = "".join(
        [line(7, "1", 50), line(8, "0"), line(7, "1", minute=5), line(8, "1", minute=5), line(7, "10", minute=10),
         line(8, "1", minute=10), line(9, "0", minute=15)]
    )  # fmt: skip
    parsed = rows(text, CONFIG)

    start = T0.replace(microsecond=224181)
    at = [start + STEP * step for step in range(-1, 4)]
    assert picked(parsed, "runs", "job_id", "scheduler", "state", "started_at", "ended_at", "gpu_count", "name") == [
        ("ml8.uio.no/7", "other", "UNKNOWN", at[0], at[3], 1.0, "python"),
        ("ml8.uio.no/8", "other", "UNKNOWN", at[0], at[3], 1.0, "python"),
    ]
    assert picked(parsed, "run_gpus", "job_id", "gpu_index", "share_ratio", "started_at", "ended_at") == [
        ("ml8.uio.no/7", 0, None, at[0], at[1]),
        ("ml8.uio.no/7", 0, 0.5, at[1], at[2]),  # two groups on one card have an even share
        ("ml8.uio.no/8", 0, 0.5, at[1], at[2]),
        ("ml8.uio.no/8", 0, None, at[2], at[3]),
        ("ml8.uio.no/7", 1, None, at[2], at[3]),
    ]


def test_an_id_that_comes_back_after_hours_is_another_run_and_a_gap_is_not_covered() -> None:
    parsed = rows(line(7, "1", 50) + line(7, "1", 50, minute=180), CONFIG)

    assert len(parsed.tables["runs"]) == 2
    assert picked(parsed, "gpu_samples", "interval_ms")[4:5] == [(750_000,)], "at most 2.5 intervals"
    assert [row["state"] for row in parsed.tables["runs"]] == ["UNKNOWN", "RUNNING"]


def test_a_snapshot_split_over_two_files_is_one() -> None:
    whole, first, second = rows(line(7, "1", 50) + line(8, "1", 20)), line(7, "1", 50), line(8, "1", 20)

    assert picked(rows(first, second), "gpu_samples", "gpu_utilization_ratio") == [(0.7,)]
    held = picked(rows(first, second, first), "run_gpus", "job_id", "share_ratio")
    assert held == picked(whole, "run_gpus", "job_id", "share_ratio")


TAGGED = (
    'v={v},time=2023-10-10T00:00:07+02:00,host=ml8.uio.no,cores=192,user=u10,job=17,pid=0,cmd=python,cpu%=NaN,"gpus=3,0,1,2",'
    "gpu%=172,gpumem%=80,gpukib=4096,cputime_sec=4017099,rolledup=36{more}\n"
    "v={v},time=2023-10-10T00:00:07+02:00,host=ml8.uio.no,cores=192,user=u11,job=18,pid=19,cmd=x,gpus=none,gpu%=0\n"
)


def test_tagged_cells_are_read_and_the_figures_of_a_process_are_even_over_its_cards() -> None:
    parsed = rows(TAGGED.format(v="0.7.0", more=""))

    assert picked(parsed, "gpu_samples", "gpu_index", "gpu_utilization_ratio", "memory_used_bytes") == [
        (index, pytest.approx(0.43), 1 << 20) for index in range(4)
    ]
    assert {row["pid"] for row in parsed.tables["gpu_processes"]} == {17}
    assert [note for note in parsed.notes if "--config" in note]


def test_a_driver_that_did_not_answer_is_no_idle_card() -> None:
    parsed = rows(TAGGED.format(v="0.7.0", more=",gpufail=1"), CONFIG)

    assert "gpu_samples" not in parsed.tables
    assert [note for note in parsed.notes if "did not answer" in note]


@pytest.mark.parametrize(
    ("version", "more", "is_batch", "job_id", "runs"),
    [
        ("0.7.0", "", False, "ml8.uio.no/17", 1),
        ("0.7.0", "", True, "17", 0),
        ("0.14.0", "", False, "17", 0),  # no epoch: a batch system's
        ("0.14.0", ",epoch=168341194", True, "ml8.uio.no/17", 1),
    ],
)
def test_a_batch_systems_jobs_are_its_own_to_tell(version: str, more: str, is_batch: bool, job_id: str, runs: int) -> None:
    parsed = rows(TAGGED.format(v=version, more=more), is_batch=is_batch)

    assert {row["job_id"] for row in parsed.tables["gpu_processes"]} == {job_id}
    assert (len(parsed.tables.get("runs", [])), len(parsed.tables.get("run_gpus", []))) == (runs, runs * 4)


def test_the_cards_own_counters_come_before_what_processes_say() -> None:
    info = '"gpuinfo=fan%=40|40,perf=P0|P0,musekib=1024|,cutil%=78|,tempc=71|73,poww=209|,powlimw=250|250,cez=1830|1815"'
    parsed = rows(TAGGED.format(v="0.14.0", more=f",{info}").replace('"gpus=3,0,1,2"', "gpus=1"))

    columns = ("gpu_utilization_ratio", "memory_used_bytes", "temperature_celsius", "power_watts", "sm_clock_mhz", "missing")
    first, second = picked(parsed, "gpu_samples", *columns)
    assert first == (pytest.approx(0.78), 1 << 20, 71, 209, 1830, None)
    # what is zero is left out: no work, no memory; but a card without power tells none
    assert second == (0, 0, 73, None, 1815, {"power_watts": "not_supported"})


SAMPLE: dict[str, Any] = {
    "meta": {"producer": "sonar", "version": "0.14.0"},
    "data": {"type": "sample", "attributes": {
        "time": "2025-04-13T08:17:35+02:00", "cluster": "uio", "node": "n1",
        "system": {"gpus": [
            {"uuid": "GPU-a", "memory": 1024, "ce_util": 48, "temperature": 75, "power": 208, "ce_clock": 1815},
            {"index": 1, "uuid": "GPU-b", "failing": 1},
        ]},
        "jobs": [
            {"job": 7, "user": "u", "epoch": 16, "processes": [
                {"cmd": "python", "pid": 70, "gpus": [{"uuid": "GPU-a", "gpu_util": 60, "gpu_memory": 512}]},
                {"cmd": "bash", "pid": 71}]},
            {"job": 99, "user": "u", "processes": [{"cmd": "x", "pid": 72, "gpus": [{"index": 1, "uuid": "GPU-b"}]}]},
        ],
    }},
}  # fmt: skip
SYSINFO: dict[str, Any] = {
    "data": {"type": "sysinfo", "attributes": {
        "time": "2025-04-13T08:16:38+02:00", "cluster": "uio", "node": "n1", "sockets": 2, "cores_per_socket": 14,
        "threads_per_core": 2, "memory": 130949880,
        "cards": [{"address": "00000000:18:00.0", "index": 0, "uuid": "GPU-a", "model": "NVIDIA GeForce RTX 2080 Ti",
                   "driver": "560.35.03", "memory": 11534336, "power_limit": 250, "max_ce_clock": 2100}],
    }},
}  # fmt: skip


def test_the_json_of_samples_and_sysinfo_is_read_with_its_uuids() -> None:
    parsed = rows(json.dumps(SAMPLE) + "\n" + json.dumps(SYSINFO) + "\n")

    assert picked(parsed, "gpu_samples", "cluster", "gpu_uuid", "gpu_utilization_ratio", "memory_total_bytes", "pci_bus_id") == [
        ("uio", "GPU-a", pytest.approx(0.48), 11534336 << 10, "00000000:18:00.0"),
        ("uio", "GPU-b", None, None, None),
    ]
    assert set(parsed.tables["gpu_samples"][1]["missing"].values()) == {"gap"}
    assert picked(parsed, "gpu_processes", "gpu_uuid", "pid", "job_id", "memory_used_bytes") == [
        ("GPU-a", 70, "n1/7", 512 << 10), ("GPU-b", 72, "99", 0),
    ]  # fmt: skip
    assert picked(parsed, "run_gpus", "job_id", "gpu_uuid", "assignment_method") == [("n1/7", "GPU-a", "process")]
    assert picked(
        parsed, "gpu_inventory", "gpu_uuid", "gpu_model", "driver_version", "power_limit_watts", "sm_clock_max_mhz"
    ) == [("GPU-a", "NVIDIA GeForce RTX 2080 Ti", "560.35.03", 250, 2100)]
    assert picked(parsed, "nodes", "node", "cpu_count", "memory_bytes", "gpu_count") == [("n1", 56, 130949880 << 10, 1)]


def test_the_json_of_0_13_is_read() -> None:
    document = {"v": "0.13.0", "time": "2025-04-13T08:17:35+02:00", "host": "n1",
                "gpuinfo": [{"cutil%": "48", "musekib": "1024"}, {}],
                "samples": [{"job": "7", "pid": "8", "cmd": "python", "gpus": "1", "gpu%": "60", "gpukib": "512"}]}  # fmt: skip
    old = {"timestamp": "2025-04-13T08:16:38+02:00", "hostname": "n1", "description": "2x14 Xeon, 1x NVIDIA A100 @ 40GB",
           "cpu_cores": 56, "mem_gb": 125, "gpu_cards": 1, "gpumem_gb": 40}  # fmt: skip
    parsed = rows(document, old)

    assert picked(parsed, "gpu_samples", "gpu_uuid", "gpu_utilization_ratio") == [("n1/0", pytest.approx(0.48)), ("n1/1", 0)]
    assert picked(parsed, "gpu_processes", "gpu_uuid", "job_id") == [("n1/1", "n1/7")]
    assert picked(parsed, "gpu_inventory", "gpu_uuid", "gpu_model", "memory_total_bytes") == [("n1/0", "NVIDIA A100", 40 << 30)]


def test_a_configuration_names_cards_by_their_words_and_nodes_in_brackets() -> None:
    machines = parse_sonar(json.dumps(CONFIG).encode(), "config").machines

    assert [machine.node for machine in machines] == ["ml8.uio.no", "gpu-1.fox", "gpu-2.fox"]
    assert [(card.model, card.memory_bytes) for card in machines[2].cards] == [
        ("NVIDIA A100", 40 << 30), ("NVIDIA A100", 40 << 30), ("NVIDIA H100", 80 << 30),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (line(7, "1.00E+03"), "spreadsheet"),
        (line(7, "2"), "spreadsheet"),
        (line(7, "1").replace("+00:00", ""), "no offset"),
        (line(7, "1").replace("2023-06-23", "2023-99-23"), "no time"),
        (line(7, "1").replace(",7,", ",seven,"), "no whole number"),
        ("2023-06-23T05:05:01.224181967+00:00,ml8.uio.no,19\n", "not whole"),
        ("v=0.7.0,time=2023-10-10T00:00:07+02:00,user=x\n", "host"),
        ('v=0.7.0,time=2023-10-10T00:00:07+02:00,host=h,"gpus=9\n', ""),
        ("v=0.7.0,time=2023-10-10T00:00:07+02:00,host=h,gpus=9999\n", "no list of cards"),
    ],
)
def test_a_line_that_is_none_is_quarantined_and_the_rest_lands(bad: str, reason: str) -> None:
    parsed = rows(line(7, "1", 50) + bad + line(7, "1", 50, minute=5))

    assert len(parsed.tables["gpu_samples"]) == 2
    assert [(reject.line, reject.reason) for reject in parsed.rejects] == [(2, "malformed")]
    assert reason in parsed.rejects[0].detail


@pytest.mark.parametrize("percent", ["NaN", "inf", "-3"])
def test_a_utilisation_that_is_none_is_missing_and_not_zero(percent: str) -> None:
    [sample] = rows(line(7, "1", percent) + line(8, "1", 20)).tables["gpu_samples"]

    assert sample["missing"]["gpu_utilization_ratio"] == "out_of_range"
    assert "gpu_utilization_ratio" not in sample


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "neither samples"),
        ("JobID|State\n", "neither samples"),
        ('{"jobs": []}', "neither samples"),
        ('{"meta": {}, "errors": [{"detail": "no GPUs"}]}', "no GPUs"),
        ('{"data": {"attributes": {"slurm_jobs": []}}}', "command slurm"),
        ('{"data": ', "no whole JSON"),
    ],
)
def test_a_file_that_is_not_sonars_is_refused_with_its_name(text: str, message: str) -> None:
    with pytest.raises(SourceFailedError, match=f"saved: .*{message}"):
        parse_sonar(text.encode(), "saved")


def sonar(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["sonar", *(str(argument) for argument in arguments)])


def test_the_command_lands_a_day_with_its_configuration_twice_without_a_change(home: Path, tmp_path: Path) -> None:
    day, config = tmp_path / "day.csv.gz", tmp_path / "ml.json"
    day.write_bytes(gzip.compress((line(7, "1000", 84, 1024) + line(7, "1000", 50, 1024, minute=5)).encode()))
    config.write_text(json.dumps(CONFIG))

    first = sonar(day, "--config", config, "--json")
    assert first.exit_code == 0, first.output
    files = {path: path.read_bytes() for path in (home / "raw").rglob("*.parquet")}
    assert sonar(day, "--config", config).exit_code == 0
    assert {path: path.read_bytes() for path in (home / "raw").rglob("*.parquet")} == files
    samples = pl.read_parquet(home / "raw/sonar/gpu_samples/**/*.parquet")
    assert samples["cluster"].unique().to_list() == ["ml"]
    assert samples["gpu_utilization_ratio"].sum() == pytest.approx(1.34)
    assert pl.read_parquet(home / "raw/sonar/gpu_processes/**/*.parquet")["user"].null_count() == 2, "no key, no users"


def test_one_file_that_cannot_be_read_is_quarantined_and_the_others_land(home: Path, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.csv", tmp_path / "bad.csv"
    good.write_text(line(7, "1", 50))
    bad.write_bytes(bytes(range(32)) * 100)

    assert sonar(good, bad, "--cluster", "c").exit_code == 4
    assert sonar(bad, "--cluster", "c").exit_code == 1
    assert sonar(good).exit_code == 2, "nothing names the cluster"
