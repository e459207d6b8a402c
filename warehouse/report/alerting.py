"""The alert rules that the published figures break, asked when the version is made.

Rules about a build (held, failed) are none of a published figure's; the command `alerts` asks them as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import duckdb

from warehouse.alerts.conditions import evaluate_published, is_of_pipeline
from warehouse.alerts.rules import read_rules, rules_path
from warehouse.digest import words
from warehouse.home import Home
from warehouse.init.files import ConfigError

#: so many are shown, the others counted
MOST_FIRINGS = 50
_LONGEST = 600


@dataclass(frozen=True)
class Alerts:
    """`firing` are (rule, what it says); `problems` say what keeps a rule from being asked."""

    note: str
    firing: Sequence[tuple[str, str]] = ()
    problems: Sequence[str] = ()


def read_alerts(home: Home | None, connection: duckdb.DuckDBPyConnection, published_at: datetime) -> Alerts:
    """What fires of the rules in `home`; a file that cannot be read, or none, is told."""
    if home is None:
        return Alerts("The rules were not asked: this page was made without its warehouse.")
    try:
        every, problems = read_rules(home)
    except ConfigError as error:
        return Alerts("The rules cannot be read, so that none was asked.", problems=_cleaned(home, [f"{error}"]))
    rules = [rule for rule in every if not is_of_pipeline(rule)]
    if not rules:
        return Alerts("No rule about published figures is set in config/alert_rules.csv.", problems=_cleaned(home, problems))
    found = evaluate_published(connection, rules, published_at)
    asked = len(rules) - len(found.undetermined)
    firing = [(words.clean(firing.rule.name), words.clean(firing.says, _LONGEST)) for firing in found.firings]
    broken = len({rule for rule, _ in firing})
    said = [f"{_counted(broken, asked)} when this version was published, {published_at:%Y-%m-%d %H:%M} UTC."]
    if len(firing) > MOST_FIRINGS:
        said.append(f"{MOST_FIRINGS} of {words.count(len(firing))} findings are shown.")
    if found.undetermined:
        said.append(f"{len(found.undetermined)} could not be asked.")
    said.append("Since when each fires, and rules about a build that is held or failed: python -m warehouse alerts.")
    return Alerts(" ".join(said), firing[:MOST_FIRINGS], _cleaned(home, [*problems, *found.problems]))


def _counted(broken: int, asked: int) -> str:
    rules = f"{asked} rule{'' if asked == 1 else 's'} about published figures"
    return f"{broken or 'None'} of {rules} fired"


def _cleaned(home: Home, problems: Sequence[str]) -> list[str]:
    """For a page that others read, to whom the path on this machine says nothing."""
    path = rules_path(home)
    return [words.clean(problem.replace(f"{path}", f"{path.parent.name}/{path.name}"), _LONGEST) for problem in problems]
