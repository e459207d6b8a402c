"""`python -m warehouse questions`: what people ask of a fleet, the SQL that answers it, and the answer."""

from __future__ import annotations

import sys
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
import duckdb
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from warehouse.database import connect
from warehouse.digest.words import clean
from warehouse.home import Home
from warehouse.questions.asking import Answer, Question, ask, read_questions

#: rows of an answer that are printed
MOST_ROWS = 12


@click.command("questions")
@click.argument("numbers", nargs=-1, type=click.IntRange(1))
@click.option("--database", type=click.Path(path_type=Path, dir_okay=False), help="A published file; the current one if absent.")
@click.option("--list", "only_list", is_flag=True, help="Only the questions.")
@click.option("--sql/--no-sql", "with_sql", default=True, help="Print the SQL between question and answer (the default).")
def questions_command(numbers: tuple[int, ...], database: Path | None, only_list: bool, with_sql: bool) -> None:
    """What people ask of a fleet, the SQL that answers it, and the answer; all questions, or those with these NUMBERS."""
    every = read_questions()
    console = Console()
    if not console.is_terminal:
        console.width = 140
    if only_list:
        for number, question in enumerate(every, 1):
            click.echo(f"{number:2}  {question.title}")
        return
    wanted = numbers or range(1, len(every) + 1)
    if unknown := [number for number in wanted if number > len(every)]:
        raise click.UsageError(f"there is no question {unknown[0]}: there are {len(every)}, `--list` names them")
    path = database or Home.from_environment().published_database
    if not path.exists():
        click.echo(f"{path} is not there: nothing is published yet; land a source, then `python -m warehouse run`", err=True)
        sys.exit(1)
    try:
        with connect(path, read_only=True) as connection:
            for number in wanted:
                _print(console, number, every[number - 1], ask(connection, every[number - 1]), with_sql)
    except duckdb.Error as error:
        click.echo(f"{path} cannot answer: {error}", err=True)
        sys.exit(1)


def _print(console: Console, number: int, question: Question, answer: Answer, with_sql: bool) -> None:
    console.print(Text(f"{number}. {question.title}", style="bold"))
    console.print(Text(question.note, style="dim"))
    if with_sql:
        console.print(Syntax(question.sql, "sql", background_color="default", word_wrap=True))
    console.print(Text(clean(answer.says, 2000), style="bold green"))
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    numeric = [any(isinstance(row[place], int | float | Decimal) for row in answer.rows) for place in range(len(answer.columns))]
    for name, is_number in zip(answer.columns, numeric, strict=True):
        table.add_column(name.replace("_", " "), justify="right" if is_number else "left")
    for row in answer.rows[:MOST_ROWS]:
        table.add_row(*map(_cell, row))
    console.print(table)
    if len(answer.rows) > MOST_ROWS:
        console.print(f"and {len(answer.rows) - MOST_ROWS} more rows")
    console.print()


def _cell(value: Any) -> Text:
    if value is None:
        return Text("–")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, float | Decimal):
        return Text(f"{value:,.4f}" if abs(float(value)) < 10 else f"{value:,.2f}")
    if isinstance(value, date | datetime):
        return Text(f"{value}")
    return Text(f"{value:,}" if isinstance(value, int) else clean(str(value)))
