from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

from warehouse.home import Home
from warehouse.init.command import init, init_command
from warehouse.init.drafts import MOST_RULES, name_pattern
from warehouse.init.files import SIZE_LIMIT, ConfigError, read_config_file
from warehouse.init.land import config_messages, land_config, path_of, read_said
from warehouse.init.seen import SeenWorkload
from warehouse.landing.landings import Landing
from warehouse.landing.shape import TABLES

NOON = datetime(2026, 11, 2, 12)
HOUR = timedelta(hours=1)
CARDS = "gpu_model,provider,cluster,currency,cost_per_gpu_hour,valid_from\n"
RULES = "priority,cluster,namespace,name_regex,workload,team,kind\n"


@pytest.fixture
def place(home: Path) -> Home:
    return Home.from_environment().create()


def land(place: Home, **tables: list[dict[str, Any]]) -> None:
    Landing(place).land("import", {name: pl.DataFrame(rows, infer_schema_length=None) for name, rows in tables.items()})


def run(name: str, hours: float = 1.0, **more: Any) -> dict[str, Any]:
    """A run of one GPU that ended at noon."""
    return {
        "cluster": "alder",
        "scheduler": "slurm",
        "job_id": f"{name}-{more.get('namespace', 'ml')}",
        "name": name,
        "namespace": "ml",
        "state": "COMPLETED",
        "started_at": NOON - hours * HOUR,
        "ended_at": NOON,
        "gpu_count": 1,
        "observed_at": NOON,
    } | more


def pod(name: str, owner: str, kind: str, **more: Any) -> dict[str, Any]:
    return run(name, scheduler="kubernetes", owner_kind=kind, owner_name=owner, cluster="cirrus", **more)


def gpu(uuid: str, model: str = "NVIDIA H100 80GB HBM3", **more: Any) -> dict[str, Any]:
    return {"cluster": "alder", "node": "n1", "gpu_uuid": uuid, "gpu_model": model, "seen_at": NOON} | more


def rows_of(place: Home, table_name: str) -> list[Mapping[str, Any]]:
    file = read_config_file(path_of(place, table_name), [])
    assert file is not None
    return [{name: cell for name, cell in row.cells.items() if cell} for row in file.rows]


def in_force(place: Home, table_name: str) -> pl.DataFrame:
    """What the build would read: the row landed last per key, without those in force at no time."""
    table = TABLES[table_name]
    frame = pl.read_parquet([*(place.raw / "config" / table_name).glob("dt=*/*.parquet")])
    frame = frame.sort("landed_at").unique(table.key, keep="last", maintain_order=True)
    start = pl.col("valid_from").fill_null(datetime(1970, 1, 1))
    return frame.filter(pl.col("valid_to").is_null() | (pl.col("valid_to") > start)).sort(table.key)


def write(place: Home, table_name: str, text: str) -> None:
    path_of(place, table_name).write_text(text, encoding="utf-8")


def test_with_nothing_landed_the_files_have_their_columns_and_say_what_they_are_for(place: Home) -> None:
    done = CliRunner().invoke(init_command, [])
    assert done.exit_code == 0
    assert "python -m collectors check" in done.output
    for name in ("rate_cards", "workload_rules"):
        assert rows_of(place, name) == []
        assert path_of(place, name).stat().st_mode & 0o077 == 0
    assert (place.config / "digest_recipients.csv").read_text().endswith("recipient,edition\n")


def test_each_gpu_model_of_a_cluster_gets_a_line_without_a_price(place: Home) -> None:
    land(place, gpu_inventory=[gpu("a"), gpu("b"), gpu("c", "NVIDIA A100, 40GB", cluster="birch", provider="gcp")])
    init(place)
    assert rows_of(place, "rate_cards") == [
        {"gpu_model": "NVIDIA H100 80GB HBM3", "cluster": "alder", "valid_from": "2026-11-02"},
        {"gpu_model": "NVIDIA A100, 40GB", "provider": "gcp", "cluster": "birch", "valid_from": "2026-11-02"},
    ]
    said = read_said(place, "rate_cards")
    assert (said.rows.height, said.rejects) == (0, ())
    assert "no price yet, and therefore skipped: line 10, 12;" in said.notes[0]


def test_a_gpu_on_a_bill_needs_no_price_and_the_bill_names_the_currency(place: Home) -> None:
    times = ("billing_period_start", "billing_period_end", "charge_period_start", "charge_period_end", "delivered_at")
    bill: dict[str, Any] = dict.fromkeys(times, NOON)
    bill |= {"billed_cost": "1", "effective_cost": "1", "billing_currency": "EUR", "charge_category": "Usage"}
    bill |= {"provider_name": "p", "billing_account_id": "a", "resource_id": "I-1", "delivery_id": "d"}
    land(place, gpu_inventory=[gpu("a", provider_resource_id="i-1"), gpu("b")], billing_lines=[bill])
    init(place)
    (card,) = rows_of(place, "rate_cards")
    assert card["currency"] == "EUR"
    assert "# 1 GPU in alder" in path_of(place, "rate_cards").read_text()


def test_gpus_that_only_a_scheduler_knows_are_priced_as_unknown(place: Home) -> None:
    land(place, runs=[run("a", gpu_model="h100"), run("b", gpu_model="a100")])
    init(place)
    assert rows_of(place, "rate_cards") == [{"gpu_model": "unknown", "cluster": "alder", "valid_from": "2026-11-02"}]
    assert "jobs asked for a100 and h100" in path_of(place, "rate_cards").read_text()


def test_each_workload_gets_a_rule_the_biggest_first_with_its_hours_beside_it(place: Home) -> None:
    waiting = run("waits", state="PENDING", started_at=None, ended_at=None)
    land(place, runs=[run("eval_7", 2), run("train_1", 3), run("train_22", 4), run("cpu", gpu_count=0), waiting])
    init(place)
    first, second = rows_of(place, "workload_rules")
    assert first == {
        "priority": "10",
        "cluster": "alder",
        "namespace": "ml",
        "name_regex": "^train_[0-9]+$",
        "workload": "train_#",
        "kind": "training",
    }
    assert (second["priority"], second["workload"]) == ("20", "eval_#")
    assert "# about 7.0 GPU-hours in 2 runs, last 2026-11-02\n" in path_of(place, "workload_rules").read_text()


def test_kinds_are_guessed_as_the_build_guesses_them(place: Home) -> None:
    usage: dict[str, Any] = {
        "cluster": "cirrus",
        "server": "s",
        "job_id": "chat-5d4f7-abcde-ml",
        "model": "m",
        "request_count": 1,
    }
    usage |= {"interval_start_at": NOON - HOUR, "interval_ms": 60_000, "failed_request_count": 0}
    land(
        place,
        runs=[
            run("shell", labels='{"interactive": "true"}'),
            run("jupyter-ann"),
            run("batch"),
            pod("chat-5d4f7-abcde", "chat", "Deployment"),
            pod("nightly-29388-xyz12", "nightly", "CronJob"),
            pod("fit-0-xyz12", "fit-0", "Job"),
            pod("fit-1-xyz12", "fit-1", "Job"),
            pod("web-1", "web", "StatefulSet"),
        ],
        inference_usage=[usage],
    )
    init(place)
    assert {row["workload"]: row["kind"] for row in rows_of(place, "workload_rules")} == {
        "shell": "interactive", "jupyter-ann": "interactive", "batch": "training", "chat": "inference", "nightly": "batch",
        "fit-#": "training", "web": "unknown",
    }  # fmt: skip


def test_a_pattern_finds_a_workloads_names_and_none_of_its_neighbours(place: Home) -> None:
    land(
        place,
        runs=[
            pod("chat-5d4f7-abcde", "chat", "Deployment"),
            pod("chat-5d4f7-fghij", "chat", "Deployment"),
            pod("chat-router-8c9d6-abcde", "chat-router", "Deployment"),
            pod("search-0", "search", "StatefulSet"),
        ],
    )
    init(place)
    patterns = {row["workload"]: row["name_regex"] for row in rows_of(place, "workload_rules")}
    assert patterns == {"chat": "^chat-[0-9a-z]+-[0-9a-z]{5}$", "chat-router": "^chat-router(-|$)", "search": "^search(-|$)"}


def test_names_that_no_pattern_tells_apart_become_a_comment() -> None:
    names = frozenset(f"{letter}x" for letter in "abcdefghijklmnopqrstuvwxyz")
    workload = SeenWorkload("c", "ml", "w", "training", None, 1, names, frozenset(), 26, 1.0, NOON)
    assert name_pattern(workload) is None


def test_hostile_names_stay_on_their_line(place: Home) -> None:
    land(place, runs=[run('a",b\n10,alder,ml,.*,mine,mine,training'), run("#x"), run("(?P<"), run("=cmd()")])
    init(place)
    said = read_said(place, "workload_rules")
    assert said.rejects == ()
    assert set(said.rows["workload"]) == {'a",b #,alder,ml,.*,mine,mine,training', "#x", "(?P<", "=cmd()"}
    assert set(said.rows["team"]) == {None}


def test_a_second_init_adds_what_is_new_and_keeps_every_byte_of_the_rest(place: Home) -> None:
    land(place, runs=[run("train_1")], gpu_inventory=[gpu("a")])
    init(place)
    path = path_of(place, "workload_rules")
    edited = path.read_bytes().replace(b"train_#,,,,training", b"train_#,app,nlp,,training") + b"# mine, and mine alone\n"
    path.write_bytes(edited)
    assert [file.status for file in init(place)] == ["unchanged"] * 4
    assert path.read_bytes() == edited
    land(place, runs=[run("train_2"), run("eval_1", namespace="other")])
    assert [(file.path.stem, file.status, file.lines) for file in init(place)][3] == ("workload_rules", "added", 1)
    assert path.read_bytes().startswith(edited)
    assert [row["workload"] for row in rows_of(place, "workload_rules")] == ["train_#", "eval_#"]
    assert rows_of(place, "workload_rules")[1]["priority"] == "20"


def test_a_line_that_was_switched_off_does_not_come_back(place: Home) -> None:
    land(place, runs=[run("train_1")], gpu_inventory=[gpu("a")])
    init(place)
    for name in ("workload_rules", "rate_cards"):
        path = path_of(place, name)
        lines = path.read_text().splitlines()
        path.write_text("\n".join([*lines[:-1], "#" + lines[-1], ""]))
    assert [file.status for file in init(place)] == ["unchanged"] * 4
    assert rows_of(place, "workload_rules") == []


def test_lines_are_added_in_the_order_of_the_files_own_columns_and_line_ends(place: Home) -> None:
    path = path_of(place, "rate_cards")
    path.write_bytes(b"valid_from,currency,cost_per_gpu_hour,gpu_model,cluster\r\n2026-01-01,USD,2,T4,alder")
    land(place, gpu_inventory=[gpu("a", "L40S")])
    init(place)
    assert path.read_bytes().endswith(b"T4,alder\r\n# 1 GPU in alder\r\n2026-11-02,USD,,L40S,alder\r\n")


def test_what_another_way_has_landed_is_not_asked_for_again(place: Home) -> None:
    land(
        place,
        runs=[run("train_1"), run("eval_1")],
        gpu_inventory=[gpu("a")],
        workload_rules=[{"priority": 1, "name_regex": "^train", "workload": "t"}],
        rate_cards=[{"gpu_model": "nvidia h100 80gb hbm3", "currency": "USD", "cost_per_gpu_hour": "2", "valid_from": NOON}],
    )
    init(place)
    assert rows_of(place, "rate_cards") == []
    assert [row["workload"] for row in rows_of(place, "workload_rules")] == ["eval_#"]


def test_the_smallest_workloads_wait_for_the_next_init(place: Home) -> None:
    names = [chr(97 + number // 26) + chr(97 + number % 26) for number in range(MOST_RULES + 3)]
    land(place, runs=[run(name, 10 if number else 1) for number, name in enumerate(names)])
    note = init(place)[3].note
    assert note.startswith("3 smaller workloads (4.0% of the GPU-hours)")
    assert init(place)[3].lines == 3
    assert rows_of(place, "workload_rules")[-1]["workload"] == "aa"


def test_a_file_that_cannot_be_read_is_left_alone_and_keeps_the_others_from_nothing(place: Home) -> None:
    write(place, "rate_cards", "model;price\nH100;2\n")
    land(place, runs=[run("a")])
    done = CliRunner().invoke(init_command, ["--json"])
    assert done.exit_code == 1
    files = {Path(file["path"]).stem: file for file in json.loads(done.stdout)["files"]}
    assert files["rate_cards"]["status"] == "unreadable"
    assert "line 1: the columns are not separated by commas; save it as CSV with commas" in files["rate_cards"]["note"]
    assert files["workload_rules"]["lines"] == 1
    assert path_of(place, "rate_cards").read_text() == "model;price\nH100;2\n"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no header"),
        (b"# only a comment\n\n", "no header"),
        (b"gpu_model,currency\nH100,USD\n", "line 1: no column valid_from in the header"),
        (b"gpu_model,currency,valid_from,currency\n", "names currency twice"),
        (b"gpu_model,currency,valid_from\nH\xff,USD,2026-01-01\n", "line 2: not UTF-8 text"),
        (b"gpu_model,currency,valid_from\nH\0,USD,2026-01-01\n", "line 2: not text"),
        ("gpu_model,currency\n".encode("utf-16"), "not UTF-8 text"),
        (b"PAR1" + bytes(range(128, 192)), "not UTF-8 text"),
        (b"x" * (SIZE_LIMIT + 1), "more than 16 MiB"),
    ],
)
def test_a_file_that_is_no_such_table_says_where_and_why(place: Home, content: bytes, says: str) -> None:
    path_of(place, "rate_cards").write_bytes(content)
    with pytest.raises(ConfigError, match=says):
        read_config_file(path_of(place, "rate_cards"), ["gpu_model", "currency", "valid_from"])
    assert any(says in message for message in config_messages(place))


def test_a_line_that_cannot_be_used_names_itself_and_the_rest_lands(place: Home) -> None:
    write(
        place,
        "rate_cards",
        "\ufeff" + CARDS.upper().replace("\n", "\r\n") + "# a comment\n\n"
        "H100,,,USD,2.50,2026-01-01\n"
        "A100,,,,2.50,2026-01-01\n"
        "A40,,,USD,two,2026-01-01\n"
        "L4,,,USD,2.50\n"
        '"L40,,,USD,2.50,2026-01-01\n'
        "T4,,,USD,-1,2026-01-01\n"
        "V100,,,USD,1,soon\n",
    )
    said = read_said(place, "rate_cards")
    assert said.rows["gpu_model"].to_list() == ["H100"]
    assert [reject.line for reject in said.rejects] == [5, 6, 7, 8, 9, 10]
    assert "currency: a price needs one" in said.problems()[0]
    messages = config_messages(place)
    assert any("line 6: cost_per_gpu_hour" in message for message in messages)
    assert in_force(place, "rate_cards")["gpu_model"].to_list() == ["H100"]


def test_a_pattern_that_the_build_cannot_read_is_no_rule(place: Home) -> None:
    """The build took a broken pattern for one that is found nowhere, and nobody was told."""
    write(place, "workload_rules", RULES + "10,,,^(?=x),w,t,\n20,,,^ok,w,t,\n30,,,,w,t,robot\n")
    said = read_said(place, "workload_rules")
    assert said.rows["name_regex"].to_list() == ["^ok"]
    assert "RE2" in said.problems()[0]
    assert "kind" in said.problems()[1]


def test_a_card_of_own_hardware_needs_its_hours(place: Home) -> None:
    header = "gpu_model,currency,purchase_price,depreciation_hours,valid_from,colour\n"
    write(place, "rate_cards", header + "H100,USD,30000,,2026-01-01,\nA100,USD,9000,26280,2026-01-01,red\n")
    said = read_said(place, "rate_cards")
    assert said.rows["gpu_model"].to_list() == ["A100"]
    assert "depreciation_hours" in said.problems()[0]
    assert "column colour is not read" in said.notes[0]


def test_a_saved_file_is_in_force_from_the_next_landing_on_and_lands_once(place: Home) -> None:
    write(place, "rate_cards", CARDS + "H100,,,USD,2.50,2026-01-01\n")
    first, again = land_config(place)[0], land_config(place)[0]
    assert [landing.outcome and landing.outcome.status for landing in (first, again)] == ["landed", "already_landed"]
    assert "in force from this build on" in first.messages[0]
    assert again.messages == ()
    for price in ("3", "2.50"):
        write(place, "rate_cards", CARDS + f"H100,,,USD,{price},2026-01-01\n")
        land_config(place)
        assert [float(cost) for cost in in_force(place, "rate_cards")["cost_per_gpu_hour"]] == [float(price)]


def test_a_line_that_is_taken_out_is_withdrawn_and_may_come_back(place: Home) -> None:
    """A rule whose pattern was corrected went on beside its successor, since a key that is gone was never landed again."""
    both = RULES + "10,,,^a,w,t,\n20,,,^b,w,t,\n"
    write(place, "workload_rules", both)
    land_config(place)
    write(place, "workload_rules", RULES + "10,,,^a,w,t,\n")
    land_config(place)
    assert in_force(place, "workload_rules")["name_regex"].to_list() == ["^a"]
    assert land_config(place)[1].messages == ()
    write(place, "workload_rules", both)
    land_config(place)
    assert in_force(place, "workload_rules")["name_regex"].to_list() == ["^a", "^b"]
    write(place, "workload_rules", RULES)
    land_config(place)
    assert in_force(place, "workload_rules").height == 0


def test_while_a_line_cannot_be_read_nothing_is_withdrawn(place: Home) -> None:
    write(place, "rate_cards", CARDS + "H100,,,USD,2.50,2026-01-01\n")
    land_config(place)
    write(place, "rate_cards", CARDS + "H100,,,USD,2.x,2026-01-01\n")
    assert any("line 2" in message for message in config_messages(place))
    assert in_force(place, "rate_cards")["gpu_model"].to_list() == ["H100"]
    path_of(place, "rate_cards").write_bytes(b"\xff")
    assert any("what it said last stays in force" in message for message in config_messages(place))
    path_of(place, "rate_cards").unlink()
    assert any("is gone" in message for message in config_messages(place))
    assert in_force(place, "rate_cards")["gpu_model"].to_list() == ["H100"]


def test_a_key_that_is_said_twice_counts_as_it_stands_last(place: Home) -> None:
    write(place, "rate_cards", CARDS + "H100,,,USD,1,2026-01-01\nH100,,,USD,2,2026-01-01\n")
    said = read_said(place, "rate_cards")
    assert [float(cost) for cost in said.rows["cost_per_gpu_hour"]] == [2.0]
    assert "line 2 is said again" in said.notes[0]


def test_without_config_files_nothing_lands(place: Home) -> None:
    assert config_messages(place) == []
    assert not (place.raw / "config").exists()


def test_exchange_rates_are_in_force_once_somebody_writes_them_and_withdrawn_when_taken_out(place: Home) -> None:
    header = "currency,reporting_currency,rate,valid_from\n"
    init(place)
    assert not path_of(place, "exchange_rates").exists(), "two currencies are added only where somebody wants it"
    write(place, "exchange_rates", header + "EUR,USD,1.08,2026-01-01\nJPY,USD,0,2026-01-01\nSEK,USD,0.09,2026-01-01\n")
    messages = config_messages(place)
    assert any("exchange_rates.csv, line 3" in message for message in messages), "a rate of 0 is no rate"
    assert sorted(in_force(place, "exchange_rates")["rate"].to_list()) == [0.09, 1.08]
    write(place, "exchange_rates", header + "EUR,USD,1.10,2026-01-01\n")
    land_config(place)
    assert in_force(place, "exchange_rates")["rate"].to_list() == [1.10]
