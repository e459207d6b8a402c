"""The questions as files and as a command; that their recorded answers are true is tested on the demo fleet."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from tests.project.test_dbt_project import models
from tests.unit.expectations.fake_build import allow, make_build
from warehouse.database import connect
from warehouse.home import Home
from warehouse.publication import publish
from warehouse.questions.asking import NOTHING, Question, QuestionError, ask, parse, read_questions, read_recorded
from warehouse.questions.command import questions_command

TEXT = """-- Is it so?
--
-- What to know,
-- and more.
--
-- Answer: {x:,.1f} of {y} is {z}.
select 1 as x
"""


@pytest.fixture
def published(home: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    own = Home.from_environment()
    allow(own, make_build(own))
    publish.publish(own)
    with connect(own.published_database, read_only=True) as connection:
        yield connection


def test_there_are_ten_each_with_a_recorded_answer() -> None:
    questions = read_questions()
    assert len(questions) == 10
    assert list(read_recorded()) == [question.name for question in questions]
    assert len({question.title for question in questions}) == 10


@pytest.mark.parametrize("question", read_questions(), ids=lambda question: question.name)
def test_a_question_reads_published_tables_only(question: Question) -> None:
    tables = set(re.findall(r"(?:from|join) ((?:stg|int|dim|fct|mart|audit)_\w+)", question.sql))
    assert tables
    assert tables <= {model.name for model in models() if model.layer in ("dim", "fct", "mart", "audit")}
    recorded = read_recorded()[question.name]
    fixed = [part for part in re.split(r"\{[^}]*\}", question.sentence) if part]
    assert all(part in recorded for part in fixed), "the sentence changed, its recorded answer did not"


def test_a_head_has_a_question_a_note_and_an_answer() -> None:
    question = parse("q", TEXT)
    assert (question.title, question.note) == ("Is it so?", "What to know, and more.")
    assert (question.sentence, question.sql) == ("{x:,.1f} of {y} is {z}.", "select 1 as x")
    for broken in ("select 1", TEXT.replace("?", "."), TEXT.replace("Answer: ", ""), TEXT.replace("--\n", "")):
        with pytest.raises(QuestionError, match="q: its head is a question"):
            parse("q", broken)


def test_a_value_that_is_not_known_is_a_question_mark_and_no_row_is_nothing() -> None:
    with duckdb.connect() as connection:

        def says(sql: str) -> str:
            return ask(connection, Question("q", "?", "", "{x:,.1f} of {y} is {z}.", sql)).says

        assert says("select 1234.56 as x, 'all {of} it' as y, null as z") == "1,234.6 of all {of} it is ?."
        assert says("select null as x, 2 as y, 3 as z") == "? of 2 is 3."
        assert says("select 1 as x, 2 as y, 3 as z where false") == NOTHING
        with pytest.raises(QuestionError, match="asks for 'z', and the query has x, y"):
            says("select 1 as x, 2 as y")


def test_the_command_prints_question_sql_and_answer(published: duckdb.DuckDBPyConnection) -> None:
    answer = ask(published, read_questions()[0]).says
    done = CliRunner().invoke(questions_command, ["1"])
    assert done.exit_code == 0, done.output
    assert "1. Where did last week go?" in done.output
    assert "from mart_ghost_capacity_daily" in done.output
    assert answer.split(";")[0] in " ".join(done.output.split())
    listed = CliRunner().invoke(questions_command, ["--list"]).output.splitlines()
    assert len(listed) == 10


def test_the_command_says_what_is_missing(home: Path) -> None:
    done = CliRunner().invoke(questions_command, [])
    assert done.exit_code == 1
    assert "nothing is published yet" in done.output
    done = CliRunner().invoke(questions_command, ["11"])
    assert done.exit_code == 2
    assert "there is no question 11: there are 10" in done.output
