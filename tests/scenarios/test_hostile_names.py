"""Names are data: markup, SQL, line breaks and secrets that came in as names are in nothing that people or programs read.

The world is `hostile_names_and_secrets_do_nothing`; every secret and person of it has `hush` in it.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from email import message_from_bytes, policy
from email.headerregistry import Address
from html.parser import HTMLParser
from pathlib import Path

import duckdb
import pytest

from warehouse.digest.editions import Edition
from warehouse.digest.message import compose
from warehouse.digest.reading import read
from warehouse.digest.render import Digest, render
from warehouse.home import Home
from warehouse.sql import compose as compose_sql
from warehouse.sql import identifier, literal

WORLD = "hostile_names_and_secrets_do_nothing"
DAY = date(2026, 11, 2)
SECRET = "hush"
TEAMS = ("<script>team</script>", "t\r\nSubject: gone", "'); drop table dim_workloads; --")


class _Active(HTMLParser):
    """Collects what a page would run or load because of a name: scripts, handlers, images and links that names brought."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._in_script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.found += [f"<{tag} {name}={value}>" for name, value in attrs if name.startswith("on") or "alert(" in (value or "")]
        if values.get("src") == "x" or (values.get("href") or "").startswith(("javascript:", "http://evil")):
            self.found.append(f"<{tag} {attrs}>")
        self._in_script = tag == "script"

    def handle_endtag(self, tag: str) -> None:
        self._in_script = False

    def handle_data(self, data: str) -> None:
        if self._in_script and data.lstrip().startswith(("alert", "team")):
            self.found.append(data[:80])


def active(page: str) -> list[str]:
    parser = _Active()
    parser.feed(page)
    return parser.found


@pytest.fixture(scope="module")
def digests(built_home: Path) -> list[Digest]:
    home = Home(built_home, built_home / "raw")
    editions = [Edition(), *(Edition(team) for team in TEAMS)]
    return [render(read(home, edition, DAY)) for edition in editions]


def rows_with(connection: duckdb.DuckDBPyConnection, table: str, text: str) -> list[str]:
    query = compose_sql(
        "select cast(t as varchar) from {table} as t where contains(lower(cast(t as varchar)), {text})",
        table=identifier(table),
        text=literal(text),
    )
    return [row[0][:300] for row in connection.execute(query).fetchall()]


def test_no_credential_and_no_person_is_in_a_published_table(published: duckdb.DuckDBPyConnection) -> None:
    tables = [row[0] for row in published.execute("select table_name from duckdb_tables()").fetchall()]
    assert len(tables) > 40
    assert {table: rows for table in tables if (rows := rows_with(published, table, SECRET))} == {}


def test_no_credential_and_no_person_is_in_what_landed_or_in_a_log(built_home: Path) -> None:
    logs = [path for path in (built_home / "build" / "dbt").rglob("*") if path.suffix in (".log", ".json", ".sql")]
    assert logs
    assert [path.name for path in logs if SECRET.encode() in path.read_bytes()] == []
    landed = [path for path in (built_home / "raw").rglob("*.parquet") if path.parent.parent.name != "workload_rules"]
    with duckdb.connect() as connection:
        found = connection.execute(
            """select filename from read_parquet(?, union_by_name = true, filename = true) as t
            where contains(lower(cast(t as varchar)), ?)""",
            [[str(path) for path in landed], SECRET],
        ).fetchall()
    assert found == []


def test_a_name_that_is_sql_is_a_name(published: duckdb.DuckDBPyConnection) -> None:
    names = {
        row[0] for row in published.execute("select workload from dim_workloads where cluster like ?", [f"{WORLD}%"]).fetchall()
    }
    assert "'); drop table fct_gpu_ledger_hourly; --" in names
    assert any(len(name) == 10_000 for name in names)
    for table in ("fct_gpu_ledger_hourly", "dim_workloads", "dim_runs"):
        assert rows_with(published, table, WORLD)


def test_a_name_runs_nothing_in_the_mail_and_in_the_report(built_home: Path, digests: list[Digest]) -> None:
    for digest in digests:
        assert active(digest.html) == []
        assert "&lt;script&gt;" in digest.html or digest.edition.team != TEAMS[0]
    for page in (built_home / "published").rglob("*.html"):
        assert active(page.read_text()) == [], page


def test_a_page_with_an_active_name_is_found() -> None:
    for page in ("<b onclick=x>", "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", '<a href="javascript:x">'):
        assert active(page)


def test_a_name_with_line_breaks_adds_no_header_and_no_recipient(digests: list[Digest]) -> None:
    sender = Address("GPU Net", addr_spec="gpu-net@example.com")
    for digest in digests:
        mail = bytes(compose(digest, sender, "you@example.com", "<id@example.com>", datetime.now(UTC).replace(tzinfo=None)))
        message = message_from_bytes(mail, policy=policy.default)
        assert sorted(name.lower() for name in message.keys()) == [  # noqa: SIM118
            *("auto-submitted", "content-type", "date", "from", "message-id", "mime-version", "subject", "to"),
        ]
        assert message["To"] == "you@example.com"
        assert "\n" not in message["Subject"]
        assert SECRET not in digest.text.lower()
        # marks that turn the direction of what follows are not in a name that is shown
        assert not {"\u202e", "\u2066", "\x00"} & set(digest.text + digest.subject)
        assert max(map(len, digest.text.splitlines())) < 400


def test_the_verdict_and_the_manifest_are_json_and_hold_no_secret(built_home: Path) -> None:
    for path in (built_home / "build" / "verdict.json", built_home / "published" / "current" / "manifest.json"):
        assert SECRET not in path.read_text().lower()
        assert json.loads(path.read_text())
