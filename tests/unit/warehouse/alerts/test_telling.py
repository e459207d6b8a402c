"""Each event is told once: by run, by kill, by channel; and no secret is written down."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner, Result

from tests.conftest import PROJECT_ROOT, clean_environment
from tests.unit.warehouse.alerts.receiver import Receiver, receiving
from tests.unit.warehouse.alerts.watched_fleet import NOW, rule, watched
from tests.unit.warehouse.digest.small_fleet import DAY, LEDGER, WORKLOADS, hold
from warehouse import pipeline
from warehouse.__main__ import main
from warehouse.alerts import channels
from warehouse.alerts.channels import Channel
from warehouse.alerts.command import Outcome, watch
from warehouse.alerts.records import read_all
from warehouse.alerts.send import Means
from warehouse.home import Home

SECRET = "T0/B0/s3cr3t-of-the-channel"
BUDGET = "ghosts,ghost_money,10,USD"


@pytest.fixture
def own_home(home: object) -> Home:
    return watched(Home.from_environment().create(), BUDGET)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


@dataclass
class Watcher:
    """A home whose rules are asked and told to a receiver."""

    home: Home
    receiver: Receiver
    names: tuple[str, ...] = ("webhook",)
    now: datetime = NOW

    def watch(self, *, resend: bool = False) -> Outcome:
        means = Means({name: Channel(name, f"{self.receiver.url}/{SECRET}") for name in self.names})
        self.now += timedelta(hours=1)
        return watch(self.home, self.now, means, resend=resend)

    def told(self) -> list[list[tuple[str, str]]]:
        """Per message: rule and what is told of it."""
        return [[(event["rule"], event["what"]) for event in message["events"]] for message in self.receiver.messages]


@pytest.fixture
def watcher(own_home: Home, receiver: Receiver) -> Watcher:
    return Watcher(own_home, receiver)


def run(home: Home, *arguments: str, **settings: str) -> Result:
    result = CliRunner().invoke(main, arguments, env=clean_environment(home.root) | settings)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_an_event_is_told_once_however_often_the_rules_are_asked(watcher: Watcher) -> None:
    for _ in range(3):
        assert watcher.watch().troubles == []
    (message,) = watcher.receiver.messages
    assert message["source"] == "gpu-net"
    assert "Ghost capacity of the fleet cost 16.00 USD on 2026-11-09, above 10.00." in message["text"]
    (event,) = message["events"]
    assert (event["value"], event["limit"], event["unit"], event["currency"]) == (16.0, 10.0, "currency", "USD")
    assert (event["publication_id"], event["period"], event["since"]) == ("v000007", "2026-11-09", "2026-11-10T13:00:00Z")
    assert "http" not in message["text"], "nothing in it leads anywhere"


def test_what_is_new_together_is_one_message(watcher: Watcher) -> None:
    rule(watcher.home, BUDGET, "net,gpu_net_below,60%", "tokens,token_cost,0.5,USD")
    watcher.watch()
    rule(watcher.home, BUDGET, "net,gpu_net_below,60%", "tokens,token_cost,0.5,USD", "silence,source_silent,26")
    watcher.watch()
    first, second = watcher.told()
    assert [name for name, _ in first] == ["ghosts", "net", "tokens"]
    assert second == [("silence", "begun")]


def test_a_state_that_ends_and_begins_anew_is_told_anew_and_its_end_where_the_rule_asks(watcher: Watcher) -> None:
    rule(watcher.home, "held,build_held,,,,,,,,,,tell", "quiet,build_held")
    hold(watcher.home, datetime(2026, 11, 10, 9))
    watcher.watch()
    hold(watcher.home, datetime(2026, 11, 10, 10), build_id="build-9")
    watcher.watch()
    (watcher.home.build / "verdict.json").unlink()
    watcher.watch()
    watcher.watch()
    hold(watcher.home, datetime(2026, 11, 10, 13))
    watcher.watch()
    both = [("held", "begun"), ("quiet", "begun")]
    assert watcher.told() == [both, [("held", "over")], both]
    assert {event.episode for event in read_all(watcher.home)} == {2}
    first, _, third = [message["events"][0]["id"] for message in watcher.receiver.messages]
    assert (first.split(".")[0], first[-2:], third[-2:]) == (third.split(".")[0], ".1", ".2")


def test_a_day_that_is_over_is_no_news_and_the_next_one_is(watcher: Watcher) -> None:
    rule(watcher.home, BUDGET + ",,,,,,,,tell")
    watcher.watch()
    next_day = [("2026-11-10", *row[1:]) for row in LEDGER if row[0] == DAY]
    watched(watcher.home, BUDGET + ",,,,,,,,tell", ledger=[*LEDGER, *next_day], through="2026-11-11 00:10", commitments=[])
    rule(watcher.home, "ghosts,ghost_money,5,USD,,,,,,,,tell")
    watcher.watch()
    assert [event["period"] for message in watcher.receiver.messages for event in message["events"]] == [
        "2026-11-09",
        "2026-11-10",
    ]
    # an older version is shown for a while: its day was told
    watched(watcher.home, "ghosts,ghost_money,5,USD,,,,,,,,tell")
    watcher.watch()
    assert len(watcher.receiver.posts) == 2


def test_what_did_not_arrive_is_told_at_the_next_run_and_what_is_refused_when_asked_for(watcher: Watcher) -> None:
    watcher.receiver.status = 500
    assert watcher.watch().troubles == ["webhook, 1 event: failed: the server said 500 you posted to"]
    watcher.receiver.status = 403
    assert "refused: the server said 403" in watcher.watch().troubles[0]
    watcher.receiver.status = 200
    assert watcher.watch().messages == []
    assert len(watcher.receiver.posts) == 2
    assert watcher.watch(resend=True).troubles == []
    assert len(watcher.receiver.posts) == 3


def test_a_server_that_asks_to_come_again_is_asked_so_often_and_no_more(watcher: Watcher) -> None:
    watcher.receiver.status, watcher.receiver.headers = 429, {"Retry-After": "0"}
    assert "failed: the server said 429" in watcher.watch().troubles[0]
    assert len(watcher.receiver.posts) == 3
    assert channels.RETRIES.retry_after_max == 10


def test_an_answer_that_does_not_come_may_have_arrived_and_is_not_told_again(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "TIMEOUT", channels.urllib3.Timeout(connect=2, read=0.3))
    watcher.receiver.seconds_to_answer = 1.0
    assert "unknown: the connection ended before the server's answer" in watcher.watch().troubles[0]
    watcher.receiver.seconds_to_answer = 0.0
    assert watcher.watch().messages == []
    assert len(watcher.receiver.posts) == 1
    watcher.watch(resend=True)
    first, second = (message["id"] for message in watcher.receiver.messages)
    assert first == second, "whoever gets both can tell"


def test_a_channel_that_is_down_keeps_the_others_from_nothing(watcher: Watcher) -> None:
    watcher.names = ("webhook",)
    means = Means({"slack": Channel("slack", "http://127.0.0.1:9/x"), "webhook": Channel("webhook", watcher.receiver.url)})
    (trouble,) = watch(watcher.home, NOW, means).troubles
    assert trouble == "slack, 1 event: failed: no connection to the server (NewConnectionError)"
    assert len(watcher.receiver.posts) == 1


def test_a_sender_killed_before_the_answer_is_on_record_does_not_tell_twice(own_home: Home, receiver: Receiver) -> None:
    processes: list[subprocess.Popen[bytes]] = []

    def kill() -> None:
        processes[0].send_signal(signal.SIGKILL)
        processes[0].wait()

    receiver.on_post = kill
    settings = {"GPU_NET_ALERT_WEBHOOK_URL": f"{receiver.url}/{SECRET}"}
    environment = clean_environment(own_home.root) | settings
    arguments = [sys.executable, "-m", "warehouse", "alerts", "--send"]
    processes.append(subprocess.Popen(arguments, cwd=PROJECT_ROOT, env=environment))
    assert processes[0].wait(timeout=180) == -signal.SIGKILL
    receiver.on_post = lambda: None
    again = run(own_home, "alerts", "--send", **settings)
    assert again.exit_code == 5
    assert "left open: webhook" in " ".join(again.stdout.split())
    assert len(receiver.posts) == 1
    assert run(own_home, "alerts", "--send", "--resend", **settings).exit_code == 5
    assert len(receiver.posts) == 2
    assert receiver.messages[0] == receiver.messages[1] | {"events": receiver.messages[0]["events"]}


def test_no_address_is_written_to_a_file_a_line_or_a_log(
    watcher: Watcher, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    watcher.receiver.status, watcher.receiver.headers = 503, {"Retry-After": "0"}
    troubles = watcher.watch().troubles
    down = Means({"webhook": Channel("webhook", f"http://127.0.0.1:9/{SECRET}")})
    troubles += watch(watcher.home, NOW, down).troubles
    said = "".join([*troubles, caplog.text, *capfd.readouterr(), repr(down)])
    assert "503" in said
    assert "s3cr3t" not in said
    assert not [path for path in watcher.home.root.rglob("*") if path.is_file() and b"s3cr3t" in path.read_bytes()]


@pytest.mark.parametrize("address", ["hooks.example.com/x", "ftp://example.com/s3cr3t", "https://", "s3cr3t"])
def test_an_address_that_is_none_is_wrong_usage_and_is_not_repeated(own_home: Home, address: str) -> None:
    done = run(own_home, "alerts", "--send", GPU_NET_ALERT_SLACK_URL=address)
    assert done.exit_code == 2
    assert "GPU_NET_ALERT_SLACK_URL holds no https:// address" in done.stderr.replace("\n", " ")
    assert "s3cr3t" not in done.stderr


HOSTILE = "<!channel> <script>alert(1)</script> [x](https://evil.example) *b* &amp;\r\n@here"


def test_slack_and_teams_get_names_as_plain_text(watcher: Watcher) -> None:
    ghost = (DAY, "a", HOSTILE, "idle_compute", "", "rate_card", "USD", 1.0, "99")
    workloads = [*WORKLOADS, (HOSTILE, "a", HOSTILE, HOSTILE)]
    watched(watcher.home, "<!here>,ghost_money,50,USD,,workload", ledger=[*LEDGER, ghost], workloads=workloads)
    watcher.names = ("slack", "teams")
    assert watcher.watch().troubles == []
    slack, teams = watcher.receiver.messages
    assert "<" not in slack["text"], "Slack reads its three characters there"
    assert "&lt;!here&gt;" in slack["text"]
    assert {block["text"]["type"] for block in slack["blocks"]} == {"plain_text"}
    assert any("99.00 USD" in block["text"]["text"] for block in slack["blocks"])
    card = teams["attachments"][0]["content"]
    assert {block["type"] for block in card["body"]} == {"RichTextBlock"}, "text blocks would read Markdown"
    assert _keys(slack) & {"url", "image_url", "accessory", "actions", "$schema"} == set()
    assert _keys(teams) & {"url", "selectAction", "actions", "$schema", "backgroundImage"} == set()


def _keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {key for inner in value.values() for key in _keys(inner)}
    return {key for inner in value for key in _keys(inner)} if isinstance(value, list) else set()


def test_a_rule_names_who_is_told(watcher: Watcher) -> None:
    watcher.names = ("slack", "webhook")
    rule(watcher.home, BUDGET + ",,,,,,,webhook", "net,gpu_net_below,60%,,,,,,,,teams a@example.com")
    troubles = watcher.watch().troubles
    assert len(watcher.receiver.posts) == 1
    assert [line.split(":")[0] for line in troubles] == ["teams, 1 event", "a@example.com, 1 event"]
    assert "GPU_NET_ALERT_TEAMS_URL, or the connection gpu_net_teams" in troubles[0]
    assert "GPU_NET_SMTP_HOST" in troubles[1]


def test_a_rule_that_is_taken_out_ends_in_silence_and_a_file_that_is_broken_ends_nothing(watcher: Watcher) -> None:
    rule(watcher.home, BUDGET + ",,,,,,,,tell")
    watcher.watch()
    rule(watcher.home, "ghosts,ghost_money,ten,USD")
    assert [event.rule for event in watcher.watch().firing] == ["ghosts"]
    rule(watcher.home, "held,build_held")
    assert watcher.watch().firing == []
    assert watcher.told() == [[("ghosts", "begun")]]


def test_the_command_lists_what_fires_and_since_when(own_home: Home) -> None:
    watch(own_home, NOW - timedelta(days=400))
    listed, as_json = run(own_home, "alerts"), run(own_home, "alerts", "--json")
    assert (listed.exit_code, as_json.exit_code) == (5, 5)
    assert "ghosts" in listed.stdout
    record = json.loads(as_json.stdout)
    assert record["firing"][0]["since"] == "2025-10-06T12:00:00Z"
    assert (record["publication_id"], record["usage_date"]) == ("v000007", "2026-11-09")
    rule(own_home, "ghosts,ghost_money,1000,USD")
    done = run(own_home, "alerts")
    assert (done.exit_code, done.stdout) == (0, "nothing fires: 1 of 1 rules asked\n")
    rule(own_home, "ghosts,ghost_money,x,USD")
    assert run(own_home, "alerts").exit_code == 1
    assert run(own_home, "alerts", "--resend").exit_code == 2
    assert run(own_home, "alerts", "--send").exit_code == 2, "there is nothing to send by"


def test_a_bill_of_the_month_before_that_closes_is_told_to_be_over(watcher: Watcher) -> None:
    rule(watcher.home, "bill,bill_does_not_close,1%,,,,,,,,,tell")
    watcher.watch()
    for statement in (
        "update mart_ghost_capacity_daily set usage_date = '2026-12-02' where usage_date = '2026-11-09';"
        "update publication set data_through_at = '2026-12-03'",
        "update mart_cost_reconciliation_daily set difference = 0, billed_without_telemetry_cost = 0",
    ):
        with duckdb.connect(str(watcher.home.published_database)) as connection:
            connection.execute(statement)
        watcher.watch()
    assert watcher.told() == [[("bill", "begun")], [("bill", "over")]]


def test_a_run_that_is_held_says_what_fires_and_ends_as_it_did(own_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def step(module: str, *arguments: str) -> None:
        if arguments[:1] == ("publish",):
            sys.exit(3)

    monkeypatch.setattr(pipeline, "outcome_files", lambda raw: ["one"])
    monkeypatch.setattr(pipeline, "run_step", step)
    rule(own_home, "held,build_held", "broken,kind")
    hold(own_home, datetime(2026, 11, 10, 9))
    done = run(own_home, "run")
    assert done.exit_code == 3
    assert "1 alert fires (since when: python -m warehouse alerts):\n  held: The gate holds build build-8" in done.stdout
    assert "line 3: no kind 'kind' is known" in done.stderr
    assert [event.rule for event in read_all(own_home)] == ["held"]
    status = json.loads(run(own_home, "status", "--json").stdout)
    assert [step["state"] for step in status["steps"] if step["step"] == "alerts"] == ["1 fire"]


def test_a_record_that_is_none_is_named_with_its_remedy(own_home: Home) -> None:
    watch(own_home, NOW)
    (file,) = own_home.alerts.glob("*.json")
    file.write_text("{}")
    done = run(own_home, "alerts")
    assert done.exit_code == 1
    assert f"{file} is no record of an event: move it away" in done.stderr


def test_files_of_events_are_for_their_owner_only(own_home: Home) -> None:
    watch(own_home, NOW)
    assert oct(own_home.alerts.stat().st_mode)[-3:] == "700"
    assert all(Path(path).stat().st_mode & 0o077 == 0 for path in own_home.alerts.glob("*.json"))
