"""The HTML of an alert mail, in the style of the day's mail: what begins, what is over, and the figures that it is of.

Names came as data: the template escapes them and keeps each from turning its neighbours around. Nothing in it leads anywhere or
is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warehouse.digest.inline import inline_style
from warehouse.templates import environment


@dataclass(frozen=True)
class Entry:
    """An event as the page shows it: the rule, since when it fires or is over, and what it says."""

    rule: str
    when: str
    says: str
    is_over: bool


def render(subject: str, begun: Sequence[Entry], over: Sequence[Entry], more: str, foot: str) -> str:
    """The page; `more` says how many events it leaves out, empty where none."""
    html = _ENVIRONMENT.get_template("alert.html.j2").render(subject=subject, begun=begun, over=over, more=more, foot=foot)
    return inline_style(html)


_ENVIRONMENT = environment("warehouse.alerts")
