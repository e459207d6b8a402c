"""Read `config/alert_rules.csv`: one rule a line, each problem with its line and its remedy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from pathlib import Path

from warehouse.alerts.channels import NAMES
from warehouse.alerts.kinds import CLUSTER, KINDS, MONEY, MONEY_PER_MILLION, RATIO, SOURCE, TEAM, WORKLOAD, Kind
from warehouse.digest.editions import parse_address
from warehouse.digest.words import clean
from warehouse.home import Home
from warehouse.init.files import ConfigError, ConfigRow, Draft, new_text, read_config_file

FILE = "alert_rules.csv"
REQUIRED = ("rule", "kind")
COLUMNS = (*REQUIRED, "limit", "currency", "period", "per", "cluster", "team", "workload", "source", "notify", "when_over")
#: cells that make a rule smaller
NARROWS = (CLUSTER, TEAM, WORKLOAD, SOURCE)
#: `when_over`: whether the end of an event is told as well
TELL, SILENT = "tell", "silent"
LONGEST_NAME = 60
_LARGEST = Decimal(10) ** 12

TEMPLATE = """\
What shall be told at once, not in the next daily mail. Read at each publication, and when the gate holds a build.
A line is a rule: a name of your own, a kind, and where the kind has one a limit. Each event is told once: a sum's by day or
month, a state's when it begins, and again when it has ended and begins anew. `python -m warehouse alerts` says what fires.
kinds:
{kinds}
limit: money (needs currency), a share (0.95 or 95%), or hours. period: day or month. per: what it is taken by, as listed.
cluster, team, workload, source: only that one; empty means any.
notify: blanks between slack, teams, webhook and mail addresses; empty means every channel that is set up. Addresses of
channels are secrets, and no part of this file: GPU_NET_ALERT_SLACK_URL, …_TEAMS_URL, …_WEBHOOK_URL, or the passwords of the
Airflow connections gpu_net_slack, gpu_net_teams, gpu_net_webhook. when_over: `tell` also tells the end of an event.
A # before a line switches it off. Take it away from those below that you want, with limits of your own."""

#: rules that hold for everyone, and examples that are switched off
DRAFTS: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("", {"rule": "newest build held", "kind": "build_held", "when_over": TELL}),
    ("", {"rule": "newest build failed", "kind": "build_failed", "when_over": TELL}),
    ("", {"rule": "silent source", "kind": "source_silent", "limit": "26", "when_over": TELL}),
    ("", {"rule": "bill does not close", "kind": "bill_does_not_close", "limit": "1%"}),
    ("#", {"rule": "ghosts of a day", "kind": "ghost_money", "limit": "1000", "currency": "USD", "period": "day"}),
    (
        "#",
        {
            **{"rule": "ghosts of a team in a month", "kind": "ghost_money", "limit": "20000", "currency": "USD"},
            **{"period": "month", "per": "team", "notify": "gpu-leads@example.com slack"},
        },
    ),
    ("#", {"rule": "GPU Net", "kind": "gpu_net_below", "limit": "50%", "per": "cluster"}),
    ("#", {"rule": "coverage", "kind": "coverage_below", "limit": "95%", "per": "cluster", "when_over": TELL}),
    ("#", {"rule": "dear tokens", "kind": "token_cost", "limit": "2.50", "currency": "USD"}),
    ("#", {"rule": "time without a price", "kind": "unpriced_share", "limit": "5%"}),
    ("#", {"rule": "money nobody answers for", "kind": "unknown_share", "limit": "10%"}),
)


@dataclass(frozen=True)
class Rule:
    """One line in force. `limit` is in the kind's unit; `notify` is empty for every channel that is set up."""

    name: str
    kind: Kind
    line: int
    limit: Decimal | None = None
    currency: str = ""
    period: str = ""
    per: str = ""
    cluster: str | None = None
    team: str | None = None
    workload: str | None = None
    source: str | None = None
    notify: tuple[str, ...] = ()
    tells_end: bool = False


def rules_path(home: Home) -> Path:
    return home.config / FILE


def read_rules(home: Home) -> tuple[list[Rule], list[str]]:
    """The rules, and a line for each row that is none; no file is no rule. Raises ConfigError for a file that cannot be read.

    A column that nobody knows is such a file: what it should have narrowed would be watched too widely.
    """
    path = rules_path(home)
    file = read_config_file(path, REQUIRED)
    if file is None:
        return [], []
    if unknown := [name for name in file.header if name and name not in COLUMNS]:
        wanted = f"{_nearest(unknown[0], COLUMNS)}the columns are {', '.join(COLUMNS)}"
        raise ConfigError(f"{path}: no column {clean(unknown[0])!r} is known; {wanted}")
    problems = [f"{path}, line {reject.line}: {reject.detail}" for reject in file.rejects]
    rules: dict[str, Rule] = {}
    for row in file.rows:
        try:
            rule = _rule(row)
            if rule.name in rules:
                raise ValueError(f"line {rules[rule.name].line} has the name {clean(rule.name)!r} already; give it another one")
        except ValueError as error:
            problems.append(f"{path}, line {row.line}: {error}")
        else:
            rules[rule.name] = rule
    return list(rules.values()), problems


def _rule(row: ConfigRow) -> Rule:
    """Raises ValueError with what is wrong and the remedy."""
    cells = row.cells
    name, kind = cells.get("rule"), KINDS.get((cells.get("kind") or "").lower())
    if not name or clean(name, LONGEST_NAME) != name:
        raise ValueError(f"{clean(name or '')!r} is no name of a rule: write up to {LONGEST_NAME} characters")
    if kind is None:
        given = cells.get("kind") or ""
        raise ValueError(f"no kind {clean(given)!r} is known; {_nearest(given, KINDS)}the kinds are {', '.join(KINDS)}")
    for column in NARROWS:
        if cells.get(column) and column not in kind.narrows:
            raise ValueError(f"{column} says nothing about {kind.name}: leave it empty ({_or(kind.narrows)} can narrow it)")
    return Rule(
        name=name,
        kind=kind,
        line=row.line,
        limit=_limit(kind, cells.get("limit")),
        currency=_currency(kind, cells.get("currency")),
        period=_one_of("period", cells.get("period"), kind.periods, kind),
        per=_one_of("per", cells.get("per"), kind.pers, kind),
        **{column: cells.get(column) for column in NARROWS},
        notify=_notify(cells.get("notify")),
        tells_end=_one_of("when_over", cells.get("when_over"), (SILENT, TELL), kind) == TELL,
    )


def _limit(kind: Kind, text: str | None) -> Decimal | None:
    if kind.unit is None:
        if text:
            raise ValueError(f"{kind.name} has no limit: leave it empty")
        return None
    text = text or kind.default
    if text is None:
        raise ValueError(f"{kind.name} needs a limit, {_example(kind)}")
    problem = f"{clean(text)!r} is no limit of {kind.name}: write {_example(kind)}"
    try:
        limit = Decimal(text.removesuffix("%").strip())
    except InvalidOperation:
        raise ValueError(problem) from None
    if text.endswith("%"):
        if kind.unit != RATIO:
            raise ValueError(problem)
        limit /= 100
    if not limit.is_finite() or not 0 <= limit <= (1 if kind.unit == RATIO else _LARGEST):
        raise ValueError(problem)
    return limit


def _example(kind: Kind) -> str:
    return {RATIO: "a share such as 0.95 or 95%", MONEY: "an amount such as 1000", MONEY_PER_MILLION: "a price such as 2.50"}.get(
        kind.unit or "", "hours such as 26"
    )


def _currency(kind: Kind, text: str | None) -> str:
    if not kind.has_currency:
        if text:
            raise ValueError(f"{kind.name} is no money: leave currency empty")
        return ""
    if not text:
        raise ValueError(f"{kind.name} needs a currency: amounts in two currencies are never added")
    return text.upper()


def _one_of(column: str, text: str | None, known: Sequence[str], kind: Kind) -> str:
    given = (text or "").lower()
    if not given:
        return known[0] if known else ""
    if given not in known:
        raise ValueError(f"{column} {clean(given)!r} is none of {kind.name}: write {_or(known)}")
    return given


def _notify(text: str | None) -> tuple[str, ...]:
    found = []
    for word in (text or "").split():
        if word.lower() in NAMES:
            found.append(word.lower())
        elif "@" in word:
            found.append(parse_address(word))
        else:
            raise ValueError(f"notify {clean(word)!r} is no channel: write {_or(NAMES)}, or a mail address")
    return tuple(dict.fromkeys(found))


def _nearest(given: str, known: Sequence[str] | Mapping[str, object]) -> str:
    near = get_close_matches(given.lower(), list(known), 1)
    return f"is it {near[0]}? " if near else ""


def _or(names: Sequence[str]) -> str:
    return " or ".join(names) or "nothing"


def template() -> str:
    """The text of a new file: what the columns mean, the rules that hold for everyone, examples that are switched off."""
    drafts = [
        Draft(cells) if not mark else Draft({}, ",".join(cells.get(column, "") for column in COLUMNS)) for mark, cells in DRAFTS
    ]
    return new_text(TEMPLATE.format(kinds=describe_kinds()), COLUMNS, drafts)


def describe_kinds() -> str:
    """Every kind with what it watches, for the file's head."""
    lines = []
    for kind in KINDS.values():
        per = f" [per: {', '.join(kind.pers)}]" if len(kind.pers) > 1 else ""
        lines.append(f"  {kind.name}: {kind.says}{per}")
    return "\n".join(lines)
