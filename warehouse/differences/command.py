"""`python -m warehouse diff [A [B]]`: which numbers moved between two published versions, by how much, and why."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date, datetime
from typing import Any

import click
import duckdb
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from warehouse.differences.compare import compare
from warehouse.differences.records import (
    ALL,
    FLEET,
    GPU_HOURS,
    LEVELS,
    MONEY,
    MONEY_PER_MILLION,
    RATIO,
    TOKENS,
    Differences,
    Move,
    VersionRecord,
    days_text,
)
from warehouse.differences.sides import NoVersionError, find_file, previous_and_current
from warehouse.digest.words import clean
from warehouse.home import Home

#: a table that is not printed to a terminal is this wide
PLAIN_WIDTH = 150
NET = "gpu_net_ratio"


@click.command("diff")
@click.argument("before", required=False)
@click.argument("after", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print every move as JSON.")
@click.option("--limit", type=click.IntRange(min=1), default=10, show_default=True, help="Rows per table, the largest first.")
def diff_command(before: str | None, after: str | None, as_json: bool, limit: int) -> None:
    """Which numbers moved between two published versions, by how much, and why.

    BEFORE and AFTER are versions (v000012) or paths to a published file; without them, the version before the current one and
    the current one. Exit 0 whether anything moved or not.
    """
    home = Home.from_environment()
    try:
        older, newer = previous_and_current(home) if before is None else (None, None)
        old_file = older.database if older else find_file(home, str(before))
        new_file = newer.database if newer else find_file(home, after or "current")
        differences = compare(old_file, new_file)
    except (NoVersionError, duckdb.Error, OSError) as error:
        click.echo(f"diff: {error}", err=True)
        sys.exit(1)
    if as_json:
        click.echo(json.dumps(as_record(differences), default=_json_value, indent=2, ensure_ascii=False))
    else:
        show(differences, limit)


def as_record(differences: Differences) -> dict[str, Any]:
    """Everything as plain values; each move with its change."""
    record = asdict(differences)
    record["moves"] = [asdict(move) | {"change": move.change} for move in differences.moves]
    record["restated_days"] = list(differences.restated_days)
    return record


def _json_value(value: object) -> str:
    if isinstance(value, datetime):
        return f"{value.isoformat()}Z"
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def show(differences: Differences, limit: int, console: Console | None = None) -> None:
    """Print the two versions, why, what moved in all, by day and by whom, the largest first."""
    console = console or Console(width=max(PLAIN_WIDTH, Console().width), soft_wrap=True)
    for word, side in (("from", differences.before), ("to", differences.after)):
        console.print(f"{word:4} {escape(_version_text(side))}", highlight=False)
    if not differences.tables:
        console.print("No row of any published table differs.", highlight=False)
        return
    days = sorted({move.usage_date for move in differences.moves if move.usage_date})
    moved = f"figures moved on {days_text(days)}" if days else "no headline figure moved"
    console.print(f"{len(differences.tables)} tables hold other rows or columns; {moved}", highlight=False)
    _print_causes(console, differences)
    restated = days_text(differences.restated_days)
    _print_moves(
        console,
        f"Restated days ({restated}); of each figure, those on which its table differs",
        differences.headlines,
        len(LEVELS) * limit,
    )
    _print_moves(console, "By day", differences.of(FLEET, by_day=True), limit)
    for level in LEVELS[1:]:
        _print_moves(console, f"By {level}, restated days", differences.of(level), limit)
    if differences.not_compared:
        console.print(f"not in both files: {escape(', '.join(differences.not_compared))}", highlight=False)


def _version_text(side: VersionRecord) -> str:
    through = f"{side.data_through_at:%Y-%m-%d %H:%M}" if side.data_through_at else "–"
    return (
        f"{side.publication_id}: build {side.build_id}, published {side.published_at:%Y-%m-%d %H:%M}, "
        f"data through {through} UTC, software {side.version}"
    )


def _print_causes(console: Console, differences: Differences) -> None:
    causes = Table("why", "what the data shows", box=SIMPLE_HEAD, title="Why", title_justify="left")
    for cause in differences.causes:
        causes.add_row(cause.kind, escape(clean(cause.text, 400)))
    if differences.causes:
        console.print(causes)


def _print_moves(console: Console, title: str, moves: Sequence[Move], limit: int) -> None:
    moves = _without_intervals(moves)
    if not moves:
        return
    shown = Table(box=SIMPLE_HEAD, title=escape(title), title_justify="left")
    has_members = any(move.member != ALL for move in moves)
    has_days = any(move.usage_date for move in moves)
    for name, is_there in (("day", has_days), ("of", has_members), ("figure", True), ("days", not has_days)):
        if is_there:
            shown.add_column(name)
    for name in ("before", "after", "change"):
        shown.add_column(name, justify="right")
    shown.add_column("why")
    for move in moves[:limit]:
        place = [str(move.usage_date)] if has_days else []
        place += [escape(clean(move.member))] if has_members else []
        figures = [value_text(move, value) for value in (move.before, move.after)]
        days = [] if has_days else [str(move.day_count)]
        shown.add_row(*place, move.label, *days, *figures, change_text(move), ", ".join(move.why))
    console.print(shown)
    if len(moves) > limit:
        console.print(f"  and {len(moves) - limit} more: --limit {len(moves)}, or --json for all\n", highlight=False)


def _without_intervals(moves: Sequence[Move]) -> list[Move]:
    """GPU Net stands alone where it is known; its interval is shown where it is not (semantics 6)."""

    def place(move: Move) -> tuple[str, str, date | None]:
        return (move.level, move.member, move.usage_date)

    known = {place(move) for move in moves if move.figure == NET and None not in (move.before, move.after)}
    return [move for move in moves if move.figure not in (f"{NET}_low", f"{NET}_high") or place(move) not in known]


def value_text(move: Move, value: float | None) -> str:
    """A side of a move with its unit; a dash where there is none."""
    return "–" if value is None else _text(move, value)


def change_text(move: Move) -> str:
    """The change with sign and unit, and its share of the earlier value where there is one."""
    if move.unit == RATIO:
        known = move.before is not None and move.after is not None
        return f"{move.change * 100:+.2f} points" if known else "–"
    share = f" ({move.change / abs(move.before):+.1%})" if move.before else ""
    return _text(move, move.change, sign="+") + share


def _text(move: Move, value: float, sign: str = "") -> str:
    if move.unit == RATIO:
        return f"{value:{sign}.2%}"
    if move.unit == TOKENS:
        return f"{value:{sign},.0f}"
    if move.unit in (MONEY, MONEY_PER_MILLION):
        digits = 4 if move.unit == MONEY_PER_MILLION or abs(value) < 0.01 else 2
        return f"{value:{sign},.{digits}f} {move.currency}"
    digits = 2 if abs(value) >= 0.01 else 6
    return f"{value:{sign},.{digits}f} {'GPU-h' if move.unit == GPU_HOURS else move.unit}"
