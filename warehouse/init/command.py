"""`python -m warehouse init`: files to edit, prefilled from what has been landed. What is in them stays as it is."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from warehouse.alerts.rules import rules_path, template
from warehouse.atomic import replaced
from warehouse.digest.editions import COLUMNS as RECIPIENT_COLUMNS
from warehouse.digest.editions import recipients_path
from warehouse.home import Home
from warehouse.init.drafts import MOST_RULES, cards_of, draft_rate_cards, draft_rules, next_priority, rules_of
from warehouse.init.files import ConfigError, ConfigFile, Draft, add_drafts, new_text, read_config_file
from warehouse.init.land import path_of, read_said
from warehouse.init.seen import Seen, landed_cards, look
from warehouse.landing.shape import TABLES

RATE_CARDS = """\
What a GPU costs per hour where no bill tells it. Each build reads this file; a line counts from the next build on.
Fill in currency (USD, EUR, …) and cost_per_gpu_hour, or purchase_price with depreciation_hours (three years: 26280) and,
if you like, hosting_cost_per_hour, energy_price_per_kwh and pue. A line without a price is skipped; no price is invented.
An empty cluster or provider means any. The price in force at the start of an hour counts: for a new price add a line with
a later valid_from. A # before a line switches it off; a line that is taken out is withdrawn.
`python -m warehouse init` adds lines for what is new and changes nothing else.
example: {model},,{cluster},USD,2.50,,,,,,2026-01-01,"""

WORKLOAD_RULES = """\
Which team, application and model a run belongs to. Each build reads this file; a line counts from the next build on.
Lines are tried by rising priority, name_regex (RE2) is searched in the run's name; an empty cluster, namespace or
name_regex means any. Fill in team, application and model; correct workload and kind (inference, training, batch,
interactive, unknown), which are guesses; empty the kind to let each build guess it.
latency_target_p95_seconds, min_replicas and replica_capacity_per_second are for inference services.
A # before a line switches it off; a line that is taken out is withdrawn, and comes back with the next init if nothing
else names those runs. `python -m warehouse init` adds lines for what is new and changes nothing else.
example: 10,{cluster},ml,^chat-,chat,assistant,search,llama-3-70b,inference,2.0,2,,,"""

RECIPIENTS = """\
Who gets the daily mail, and which edition: `fleet`, or `team:<name>` with a team of workload_rules.csv.
example: gpu-leads@example.com,fleet
example: research@example.com,team:research"""


NOTHING_LANDED = (
    "Nothing has landed, so that there is nothing to prefill: python -m collectors check, collect, and run init again"
)


@dataclass(frozen=True)
class Written:
    """What `init` did with one file: `created`, `added` to, `unchanged`, or `unreadable` (`note` says why)."""

    path: Path
    status: str
    lines: int = 0
    note: str = ""

    def text(self) -> str:
        said = {
            "created": f"created, lines to fill in: {self.lines}",
            "added": f"new lines at the end: {self.lines}; the rest as it was",
            "unchanged": "nothing new, left as it is",
            "unreadable": "left as it is",
        }[self.status]
        return f"{self.path}: {said}" + (f"; {self.note}" if self.note else "")


def init(home: Home) -> list[Written]:
    """Write or extend the files of `config/`; each by itself, so that one that is broken keeps none of the others back."""
    home.create()
    files: dict[str, ConfigFile | None] = {}
    broken: list[Written] = []
    for name in ("rate_cards", "workload_rules"):
        try:
            files[name] = _read(home, name)
        except ConfigError as error:
            broken.append(Written(path_of(home, name), "unreadable", note=str(error)))
    seen = look(home, rules_of(files.get("workload_rules")))
    written = [_write_recipients(home), _write_alert_rules(home), *broken]
    if "rate_cards" in files:
        file = files["rate_cards"]
        drafts = draft_rate_cards(seen, [*cards_of(file), *landed_cards(home)], _currency(seen, file))
        written.append(_write(home, "rate_cards", file, drafts, RATE_CARDS, seen))
    if "workload_rules" in files:
        file = files["workload_rules"]
        drafts = list(draft_rules(seen, next_priority(file)))
        written.append(_write(home, "workload_rules", file, drafts, WORKLOAD_RULES, seen, _left_out(seen)))
    return sorted(written, key=lambda file: file.path)


def _currency(seen: Seen, file: ConfigFile | None) -> str | None:
    """The one currency of bills and rate cards; None where there is none or several."""
    written = {currency for row in (file.rows if file else ()) if (currency := row.cells.get("currency"))}
    every = written | set(seen.currencies)
    return every.pop() if len(every) == 1 else None


def _read(home: Home, table_name: str) -> ConfigFile | None:
    required = [column.name for column in TABLES[table_name].columns if column.required]
    return read_config_file(path_of(home, table_name), required)


def _left_out(seen: Seen) -> str:
    rest = seen.workloads[MOST_RULES:]
    if not rest:
        return ""
    every = sum(workload.gpu_hours for workload in seen.workloads)
    share = sum(workload.gpu_hours for workload in rest) / every if every else 0.0
    return f"{len(rest)} smaller workloads ({share:.1%} of the GPU-hours) are left for the next init"


def _write(
    home: Home,
    table_name: str,
    file: ConfigFile | None,
    drafts: Sequence[Draft],
    introduction: str,
    seen: Seen,
    note: str = "",
) -> Written:
    path = path_of(home, table_name)
    lines = sum(1 for draft in drafts if draft.cells)
    if file is None:
        model = next((model for model in seen.models), None)
        example = introduction.format(
            model=model.gpu_model if model else "NVIDIA H100 80GB HBM3", cluster=model.cluster if model else "mycluster"
        )
        _create(path, new_text(example, [column.name for column in TABLES[table_name].columns], drafts))
        return Written(path, "created", lines, note)
    if not lines:
        return Written(path, "unchanged", note=note)
    try:
        add_drafts(file, drafts)
    except ConfigError as error:
        return Written(path, "unreadable", note=str(error))
    return Written(path, "added", lines, note)


def _write_recipients(home: Home) -> Written:
    path = recipients_path(home)
    if path.exists():
        return Written(path, "unchanged")
    _create(path, new_text(RECIPIENTS, RECIPIENT_COLUMNS, []))
    return Written(path, "created", note="add who shall get the daily mail")


def _write_alert_rules(home: Home) -> Written:
    path = rules_path(home)
    if path.exists():
        return Written(path, "unchanged")
    _create(path, template())
    return Written(path, "created", note="add limits of your own")


def _create(path: Path, text: str) -> None:
    previous = os.umask(0o077)
    try:
        with replaced(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    finally:
        os.umask(previous)


@click.command("init")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def init_command(as_json: bool) -> None:
    """Write rate_cards.csv, workload_rules.csv, digest_recipients.csv and alert_rules.csv into GPU_NET_HOME/config.

    They are prefilled from what has been landed. Run it again when there is more: lines for what is new are added at the
    end, all else stays as it is. Each build reads the files. Exit 1 if one of them cannot be read.
    """
    home = Home.from_environment()
    written = init(home)
    problems = [problem for name in ("rate_cards", "workload_rules") for problem in read_said(home, name).problems()]
    if as_json:
        record = {"files": [asdict(file) | {"path": str(file.path)} for file in written], "problems": problems}
        click.echo(json.dumps(record, ensure_ascii=False, indent=2))
    else:
        for file in written:
            click.echo(file.text())
        for problem in problems:
            click.echo(problem, err=True)
        is_empty = not any(path.is_dir() and not path.name.startswith(".") for path in home.raw.iterdir())
        click.echo(NOTHING_LANDED if is_empty else "Edit them, then: python -m warehouse run")
    sys.exit(1 if any(file.status == "unreadable" for file in written) else 0)
