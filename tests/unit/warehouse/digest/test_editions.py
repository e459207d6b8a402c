"""Who gets a mail: `config/digest_recipients.csv`, as people write it."""

from __future__ import annotations

from pathlib import Path

import pytest

from warehouse.digest.editions import Edition, Recipient, RecipientsError, read_recipients, recipients_path
from warehouse.home import Home


@pytest.fixture
def own_home(home: Path) -> Home:
    return Home.from_environment().create()


def _write(home: Home, content: str | bytes) -> None:
    recipients_path(home).write_bytes(content.encode() if isinstance(content, str) else content)


def test_no_file_and_an_empty_one_are_nobody(own_home: Home) -> None:
    assert read_recipients(own_home) == ([], [])
    _write(own_home, "")
    assert read_recipients(own_home) == ([], [])


def test_columns_stand_in_any_order_with_comments_blank_lines_and_the_ends_of_windows(own_home: Home) -> None:
    _write(
        own_home,
        "\ufeff# who gets it\r\nEdition,note,Recipient\r\n\r\nfleet,lead,a@example.com\r\nteam: apps ,,b@example.com\r\n",
    )
    assert read_recipients(own_home) == (
        [Recipient("a@example.com", Edition()), Recipient("b@example.com", Edition("apps"))],
        [],
    )


def test_who_stands_twice_gets_one_mail_and_another_edition_is_another_mail(own_home: Home) -> None:
    _write(own_home, "recipient,edition\na@example.com,fleet\nA@Example.com,fleet\na@example.com,team:x\n")
    found, refused = read_recipients(own_home)
    assert [str(recipient.edition) for recipient in found] == ["fleet", "team:x"]
    assert refused == []


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("nobody,fleet", "'nobody' is no mail address"),
        ('"a@example.com\nBcc: b@example.com",fleet', "is no mail address"),
        ("a@example.com;b@example.com,fleet", "is no mail address"),
        ('"A, B <a@example.com>",fleet', "is no mail address"),
        ("ä@example.com,fleet", "is no mail address"),
        ("a@exa mple.com,fleet", "is no mail address"),
        ("@example.com,fleet", "is no mail address"),
        (f"{'a' * 300}@example.com,fleet", "is no mail address"),
        ("a@example.com", "'' is no edition"),
        ("a@example.com,everything", "'everything' is no edition: write `fleet` or `team:<name>`"),
        ("a@example.com,team:", "is no edition"),
        ("a@example.com,team:unallocated", "is no team"),
    ],
)
def test_a_row_that_names_nobody_is_told_with_its_line_and_the_others_stay(own_home: Home, row: str, why: str) -> None:
    _write(own_home, f"recipient,edition\n{row}\nb@example.com,fleet\n")
    found, refused = read_recipients(own_home)
    assert [recipient.address for recipient in found] == ["b@example.com"]
    assert len(refused) == 1
    assert why in refused[0]
    assert "digest_recipients.csv, line " in refused[0]


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\x00r", b"address,team\na@example.com,x\n", b"recipient,edition\n" + b'"' + b"x" * 200_000]
)
def test_a_file_that_is_no_such_table_is_an_error_that_names_it(own_home: Home, content: bytes) -> None:
    _write(own_home, content)
    with pytest.raises(RecipientsError, match=r"digest_recipients\.csv"):
        read_recipients(own_home)
