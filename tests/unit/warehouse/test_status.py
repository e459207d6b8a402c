from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from click.testing import CliRunner

from warehouse import control
from warehouse.home import Home
from warehouse.landing.landings import Landing
from warehouse.landing.outcomes import landed_tables
from warehouse.publication import publications
from warehouse.status import read_sources, status_command
from warehouse.verdict import HOLD, PUBLISH, Check, Verdict, database_state, write_verdict

NOW = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
HOUR = timedelta(hours=1)


@pytest.fixture
def place(home: Path) -> Home:
    return Home.from_environment().create()


def look() -> dict[str, Any]:
    done = CliRunner().invoke(status_command, ["--json"])
    assert done.exit_code == 0, done.output
    record: dict[str, Any] = json.loads(done.stdout)
    screen = CliRunner().invoke(status_command, [])
    assert screen.exit_code == 0
    for advice in record["next"]:
        assert advice["do"]
    return record


def advice() -> list[tuple[str, str]]:
    return [(item["what"], item["do"]) for item in look()["next"]]


def land(place: Home, cluster: str = "alder", source: str = "slurm", at: datetime = NOW) -> str:
    row: dict[str, Any] = {
        "cluster": cluster,
        "scheduler": "slurm",
        "job_id": f"{source}{at}",
        "name": "train",
        "state": "COMPLETED",
    }
    row |= {"started_at": at - HOUR, "ended_at": at, "gpu_count": 1, "observed_at": at}
    outcome = Landing(place).land(source, {"runs": pl.DataFrame([row])}, cluster=cluster)
    assert outcome.collection_run_id
    return outcome.collection_run_id


def build(place: Home, *, consumed: list[str], finished: bool = True, build_id: str = "b1") -> None:
    """A build database that holds a build on record, and nothing else."""
    with control.open_build_database(place) as connection:
        connection.execute(
            "insert into control.builds (build_id, started_at, finished_at, status, version, data_through_at, is_full_refresh) "
            "values (?, ?, ?, 'succeeded', 'v', ?, true)",
            [build_id, NOW, NOW, NOW],
        )
        connection.execute("insert into control.consumed (collection_run_id) select unnest(?)", [consumed])
        begun = build_id if finished else "b2"
        connection.execute("create or replace table control.build_window as select ? as build_id", [begun])


def judge(place: Home, verdict: str = PUBLISH, build_id: str = "b1") -> None:
    check = Check("capacity_covers_held", "audit", "critical", verdict == PUBLISH, "4.0 > 0", 1, "land the inventory again")
    write_verdict(place, Verdict(build_id, verdict, NOW, database_state(place), (check,)))


def publish(
    place: Home,
    *,
    build_id: str = "b1",
    through: datetime = NOW,
    cost_source: str = "rate_card",
    team: str = "nlp",
    gap: float = 0.0,
) -> None:
    """A published version with the columns that `status` reads; `gap` of five GPU-hours held were not observed."""
    tables = {
        "publication": {"publication_id": "p1", "build_id": build_id, "published_at": NOW, "data_through_at": through},
        "fct_gpu_ledger_hourly": {
            "cluster": "alder", "gpu_model": "H100", "gpu_hours": 5.0, "cost_source": cost_source, "hour_start_at": NOW,
        },
        "mart_workload_gpu_hours_daily": {"workload_id": "w", "team": team, "held_gpu_hours": 5.0, "usage_date": NOW.date()},
        "mart_gpu_net_daily": {
            "cluster": "alder", "held_gpu_hours": 5.0, "unobserved_gpu_hours": gap, "usage_date": NOW.date(),
        },
    }  # fmt: skip
    with publications.new_version(place.published) as folder:
        publications.Manifest("v000001", build_id, NOW.isoformat(), through.isoformat(), duckdb.__version__, 0, {}, {}).write(
            folder
        )
        with duckdb.connect(str(folder / publications.DATABASE)) as connection:
            for name, row in tables.items():
                connection.register("row", pl.DataFrame([row]).to_arrow())
                connection.execute(f"create table {name} as from row")
                connection.unregister("row")
        version = publications.seal(folder, publications.next_name(place.published))
    publications.release(version)


def everything(place: Home, **published: Any) -> None:
    """Landed, built, passed and published."""
    build(place, consumed=[land(place)])
    judge(place)
    publish(place, **published)


def test_in_an_empty_home_the_next_thing_is_to_look_what_can_be_collected(home: Path) -> None:
    (only,) = advice()
    assert only[0] == "nothing has landed yet"
    assert only[1].startswith("python -m collectors check")
    assert not home.exists()


def test_what_landed_is_told_by_source_and_cluster(place: Home) -> None:
    land(place, "alder")
    land(place, "birch", at=NOW - HOUR)
    Landing(place).record_failure("dcgm", "no answer; start it", cluster="alder")
    rows = {(row.source, row.cluster): row for row in read_sources(landed_tables(place.raw))}
    assert set(rows) == {("slurm", "alder"), ("slurm", "birch"), ("dcgm", "alder")}
    assert rows["slurm", "birch"].data_through_at == NOW - HOUR
    assert (rows["dcgm", "alder"].failures, rows["dcgm", "alder"].last_landed_at) == (1, None)


def test_a_source_that_failed_last_says_why_and_one_that_landed_since_does_not(place: Home) -> None:
    Landing(place).record_failure("slurm", "sacct is not here; run it where it is", cluster="alder")
    assert "sacct is not here" in advice()[0][0]
    land(place)
    assert "sacct" not in str(advice())


def test_landed_and_not_built_leads_to_init_and_then_to_run(place: Home) -> None:
    land(place)
    assert advice() == [("nothing is built", "python -m warehouse init, fill in prices and teams, then python -m warehouse run")]
    (place.config / "rate_cards.csv").write_text("gpu_model,currency,cost_per_gpu_hour,valid_from\n")
    assert advice() == [("nothing is built", "python -m warehouse run")]


def test_when_all_is_published_there_is_nothing_to_do(place: Home) -> None:
    everything(place)
    assert advice() == []
    assert "Nothing to do" in CliRunner().invoke(status_command, []).stdout


def test_rows_landed_since_the_build_lead_to_run(place: Home) -> None:
    everything(place)
    land(place, at=NOW + HOUR)
    assert advice()[0] == ("there is more landed than built", "python -m warehouse run")


def test_a_build_that_did_not_finish_is_done_again(place: Home) -> None:
    build(place, consumed=[land(place)], finished=False)
    assert advice()[0][0] == "the last build did not finish"


def test_a_build_that_was_not_judged_goes_through_the_gate(place: Home) -> None:
    build(place, consumed=[land(place)])
    assert "gate" in advice()[0][0]


def test_a_held_build_names_the_check_and_its_remedy(place: Home) -> None:
    build(place, consumed=[land(place)])
    judge(place, HOLD)
    assert advice()[0] == ("the build is held by capacity_covers_held: 4.0 > 0", "land the inventory again")


def test_a_build_that_may_be_published_and_is_not_leads_to_publish(place: Home) -> None:
    build(place, consumed=[land(place)])
    judge(place)
    assert advice()[0] == ("the last build may be published and is not", "python -m warehouse publish")
    publish(place, build_id="b0")
    assert advice()[0] == ("readers still see an older build", "python -m warehouse publish")


def test_a_build_that_changed_no_row_is_what_readers_see(place: Home) -> None:
    everything(place, build_id="b0")
    assert advice()[0][0] == "readers still see an older build"
    shown = publications.current_version(place.published)
    assert shown is not None
    publications.note_same(shown, "b1")
    assert advice() == []
    assert [step["remedy"] for step in look()["steps"]] == ["", "", ""]
    publish(place, build_id="b0")
    assert advice()[0][0] == "readers still see an older build", "the note is about the version it was written for"


def test_old_data_lead_to_collecting_again(place: Home) -> None:
    everything(place, through=NOW - 72 * HOUR)
    assert "3.0 days old" in advice()[0][0]


def test_what_has_no_price_no_team_or_no_readings_is_told(place: Home) -> None:
    everything(place, cost_source="unpriced", team="unknown", gap=4.0)
    price, team, readings = advice()
    assert "H100 in alder (5 GPU-hours)" in price[0]
    assert "init" in price[1]
    assert "1 workload (100% of the time held)" in team[0]
    assert "no readings of the GPUs of alder" in readings[0]
    assert "collectors nvml" in readings[1]
    sample = {"cluster": "alder", "node": "n", "gpu_uuid": "g", "interval_start_at": NOW, "interval_ms": 1000, "source": "nvml"}
    Landing(place).land("nvml", {"gpu_samples": pl.DataFrame([sample])}, cluster="alder")
    assert "20% of the time held in alder was observed" in advice()[-1][0]


def test_a_line_of_config_that_cannot_be_read_comes_first(place: Home) -> None:
    everything(place)
    (place.config / "rate_cards.csv").write_text("gpu_model,currency,cost_per_gpu_hour,valid_from\nH100,USD,two,2026-01-01\n")
    (place.config / "digest_recipients.csv").write_text("who\n")
    first, second = advice()[:2]
    assert "rate_cards.csv, line 2: cost_per_gpu_hour" in first[0]
    assert first[1].startswith("edit ")
    assert "digest_recipients.csv, line 1" in second[0]


def test_a_file_of_config_saved_since_the_build_leads_to_run(place: Home) -> None:
    everything(place)
    path = place.config / "rate_cards.csv"
    path.write_text("gpu_model,currency,cost_per_gpu_hour,valid_from\nH100,USD,2,2026-01-01\n")
    os.utime(path, (time.time() + 60, time.time() + 60))
    assert advice()[0] == ("a file of config/ was edited since the last build", "python -m warehouse run")


def test_spools_that_an_agent_left_are_told_and_fresh_ones_are_not(place: Home) -> None:
    everything(place)
    spool = place.state / "nvml" / "alder-n1-0a" / "000001-20261101.jsonl"
    spool.parent.mkdir(parents=True)
    spool.write_text("[]\n")
    assert advice() == []
    os.utime(spool, (time.time() - 3600, time.time() - 3600))
    assert "the agent of alder-n1-0a is not running" in advice()[0][0]


def test_files_that_wait_in_incoming_are_told(place: Home) -> None:
    waiting = place.root / "incoming" / "slurm" / "alder" / "sacct.txt"
    for path in (waiting, place.root / "incoming" / "done" / "slurm" / "old.txt"):
        path.parent.mkdir(parents=True)
        path.write_text("")
    assert advice()[0] == (f"1 file waits in {place.root / 'incoming'}", "python -m collectors incoming")


def test_while_a_build_runs_its_database_is_left_alone(place: Home) -> None:
    land(place)
    place.build_database.write_bytes(b"not a database yet")
    assert ("a build is running", "wait until it has ended") in advice()


def test_hostile_names_do_nothing_to_the_screen(place: Home) -> None:
    land(place, "[bold]\x1b[31malder")
    Landing(place).record_failure("dcgm", "no \x1b[31m[red]answer", cluster="[link]x")
    screen = CliRunner().invoke(status_command, []).stdout
    assert "\x1b" not in screen
    assert "[link]x" in screen
