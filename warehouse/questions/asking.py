"""The questions as files, and their answers from a published database."""

from __future__ import annotations

import csv
import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import duckdb

RECORDED = "demo.csv"
NOTHING = "Nothing: there is no such time in this database."


class QuestionError(ValueError):
    """A question's file does not have the shape that `sql/` has; the message names it."""


@dataclass(frozen=True)
class Question:
    """`name` is the file's, `sentence` the answer with a place for each value of the first row."""

    name: str
    title: str
    note: str
    sentence: str
    sql: str


@dataclass(frozen=True)
class Answer:
    """`says` is the sentence with the first row's values; `rows` are all."""

    says: str
    columns: Sequence[str]
    rows: Sequence[tuple[Any, ...]]


def read_questions() -> list[Question]:
    """The questions in the order of their numbers. Raises QuestionError."""
    folder = resources.files("warehouse.questions") / "sql"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return [parse(file.name.removesuffix(".sql"), file.read_text(encoding="utf-8")) for file in files]


def parse(name: str, text: str) -> Question:
    """A question of its file's text: title, an empty comment line, a note, another, `Answer: …`, and the SQL."""
    head = re.match(r"(?:--[^\n]*\n)+", text)
    lines = head.group().splitlines() if head else []
    parts = [" ".join(part.split()) for part in "\n".join(line[2:].strip() or "\0" for line in lines).split("\0")]
    if len(parts) != 3 or not parts[0].endswith("?") or not parts[2].startswith("Answer: ") or head is None:
        raise QuestionError(f"{name}: its head is a question, a note and `Answer: …` with an empty comment line between")
    return Question(name, parts[0], parts[1], parts[2].removeprefix("Answer: "), text[head.end() :].strip())


def ask(connection: duckdb.DuckDBPyConnection, question: Question) -> Answer:
    """Run a question on an open published database. Raises duckdb.Error, QuestionError where the sentence asks for no column."""
    cursor = connection.execute(question.sql)
    columns = [column[0] for column in cursor.description or []]
    rows = cursor.fetchall()
    if not rows:
        return Answer(NOTHING, columns, rows)
    values = dict(zip(columns, rows[0], strict=True))
    try:
        return Answer(_Sentence().vformat(question.sentence, (), values), columns, rows)
    except KeyError as error:
        raise QuestionError(f"{question.name}: the answer asks for {error}, and the query has {', '.join(columns)}") from None


class _Sentence(string.Formatter):
    """A value that is not known has no digits to round."""

    def format_field(self, value: Any, format_spec: str) -> str:
        return "?" if value is None else str(super().format_field(value, format_spec))


def read_recorded() -> dict[str, str]:
    """What the demo fleet answered when the questions were written: name → sentence."""
    text = (resources.files("warehouse.questions") / RECORDED).read_text(encoding="utf-8")
    return {row["question"]: row["answer"] for row in csv.DictReader(text.splitlines())}
