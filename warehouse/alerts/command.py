"""`python -m warehouse alerts`: what fires and since when, and telling it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import click
import duckdb
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from warehouse.alerts.channels import ChannelSettingsError, channels_of_environment
from warehouse.alerts.conditions import Evaluation, evaluate
from warehouse.alerts.records import BEGUN, SENDING, Event, firing, observe
from warehouse.alerts.rules import rules_path
from warehouse.alerts.send import RESEND, Means, Message, tell
from warehouse.atomic import BusyError, alone
from warehouse.digest import server as servers
from warehouse.digest.server import ServerSettingsError
from warehouse.digest.words import clean
from warehouse.home import Home
from warehouse.init.files import ConfigError
from warehouse.status import age

FIRING = 5
PLAIN_WIDTH = 120
#: on the first screen
MOST_SHOWN = 10


@dataclass(frozen=True)
class Outcome:
    """What was found, what is on record of it, and what became of the messages."""

    evaluation: Evaluation
    events: Sequence[Event]
    messages: Sequence[Message] = ()

    @property
    def firing(self) -> list[Event]:
        return firing(self.events)

    @property
    def troubles(self) -> list[str]:
        """Lines of the rules that are none, and messages that did not arrive."""
        return [*self.evaluation.problems, *(message.line for message in self.messages if message.is_trouble)]


def watch(home: Home, now: datetime, means: Means | None = None, *, resend: bool = False) -> Outcome:
    """Ask the rules, bring the record in line, and tell what is new where there are `means`. `now` is naive UTC.

    For the command and for a DAG. Raises ConfigError, BusyError, OSError, duckdb.Error.
    """
    home.create()
    with alone(home.alerts, "alerts"):
        evaluation = evaluate(home, now)
        events = observe(home, evaluation)
        messages = tell(home, events, means, now, resend=resend) if means else []
    return Outcome(evaluation, events, messages)


def means_of_environment() -> Means:
    """Channels of `GPU_NET_ALERT_…_URL` and the mail server of `GPU_NET_SMTP_…`, each where it is set.

    Raises ChannelSettingsError and ServerSettingsError.
    """
    server = servers.from_environment() if servers.is_set() else None
    return Means(channels_of_environment(), server)


@click.command("alerts")
@click.option("--json", "as_json", is_flag=True, help="Print every event that fires as JSON.")
@click.option("--send", is_flag=True, help="Tell what is new, by GPU_NET_ALERT_SLACK_URL, …_TEAMS_URL, …_WEBHOOK_URL and mail.")
@click.option("--resend", is_flag=True, help="With --send: tell again what fires, whoever was told before.")
def alerts_command(as_json: bool, send: bool, resend: bool) -> None:
    """What fires of the rules in config/alert_rules.csv, and since when.

    Asks the published database, the verdict and the build's record. Exit codes: 0 nothing fires, 1 a rule cannot be read or a
    message did not arrive, 2 wrong usage, 5 something fires.
    """
    if resend and not send:
        raise click.UsageError("--resend goes with --send")
    home = Home.from_environment()
    try:
        means = means_of_environment() if send else None
        if send and means == Means({}):
            raise click.UsageError(
                "nothing to send by: set GPU_NET_ALERT_SLACK_URL, …_TEAMS_URL, …_WEBHOOK_URL or GPU_NET_SMTP_HOST"
            )
        outcome = watch(home, datetime.now(UTC).replace(tzinfo=None), means, resend=resend)
    except (ChannelSettingsError, ServerSettingsError) as error:
        raise click.UsageError(str(error)) from None
    except (ConfigError, BusyError, OSError, duckdb.Error) as error:
        click.echo(f"alerts: {error}", err=True)
        sys.exit(1)
    if as_json:
        click.echo(json.dumps(as_record(outcome), indent=2, ensure_ascii=False))
    else:
        _print(home, outcome)
    for trouble in outcome.troubles:
        click.echo(trouble, err=True)
    if outcome.troubles:
        sys.exit(1)
    sys.exit(FIRING if outcome.firing else 0)


def as_record(outcome: Outcome) -> Mapping[str, Any]:
    """What fires, as plain values."""
    evaluation = outcome.evaluation
    return {
        "at": f"{evaluation.at.isoformat(timespec='seconds')}Z",
        "publication_id": evaluation.publication_id,
        "usage_date": str(evaluation.usage_date) if evaluation.usage_date else None,
        "rules": len(evaluation.rules),
        "not_asked": sorted(evaluation.undetermined),
        "problems": list(evaluation.problems),
        "firing": [_event_record(event) for event in outcome.firing],
        "messages": [{"to": one.to, "events": len(one.news), **asdict(one.reply)} for one in outcome.messages],
    }


def _event_record(event: Event) -> Mapping[str, Any]:
    record = {name: value for name, value in asdict(event).items() if name not in ("ended_at", "is_past", "notify")}
    return {"id": event.number, **record}


def show_alerts(home: Home) -> None:
    """What fires, below the first screen; a problem is told and keeps nobody from it."""
    try:
        outcome = watch(home, datetime.now(UTC).replace(tzinfo=None))
    except (ConfigError, BusyError, OSError, duckdb.Error) as error:
        click.echo(f"alerts: {error}", err=True)
        return
    for trouble in outcome.troubles:
        click.echo(f"alerts: {trouble}", err=True)
    if count := len(outcome.firing):
        click.echo(f"{count} {'alert fires' if count == 1 else 'alerts fire'} (since when: python -m warehouse alerts):")
    for event in outcome.firing[:MOST_SHOWN]:
        click.echo(f"  {clean(event.rule)}: {clean(event.says, 600)}")


def _print(home: Home, outcome: Outcome) -> None:
    evaluation, events = outcome.evaluation, outcome.firing
    if not evaluation.rules and not evaluation.problems:
        click.echo(f"no rule: {rules_path(home)} has none; `python -m warehouse init` writes it with examples")
    elif events:
        table = Table("rule", "since (UTC)", "for", "what", box=SIMPLE_HEAD)
        for event in events:
            since = datetime.fromisoformat(event.since).replace(tzinfo=None)
            open_ones = [name for name in event.deliveries if (told := event.delivery(name, BEGUN)) and told.state == SENDING]
            left = f" (left open: {', '.join(open_ones)}; {RESEND})" if open_ones else ""
            says = escape(clean(event.says, 600) + left)
            table.add_row(escape(clean(event.rule)), f"{since:%Y-%m-%d %H:%M}", age(since, evaluation.at), says)
        Console(width=max(PLAIN_WIDTH, Console().width)).print(table)
    else:
        asked = len(evaluation.rules) - len(evaluation.undetermined)
        click.echo(f"nothing fires: {asked} of {len(evaluation.rules)} rules asked")
    if evaluation.undetermined:
        click.echo(f"not asked, because no whole day is published or a build runs: {', '.join(sorted(evaluation.undetermined))}")
    for message in outcome.messages:
        if not message.is_trouble:
            click.echo(message.line)
