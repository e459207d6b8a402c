"""`make real` without the captures says so, and touches nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real import run


def test_where_the_captures_are_absent_one_line_says_where_they_belong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "REAL_DATA", tmp_path / "absent")
    monkeypatch.setattr(run, "HOME", tmp_path / "data")
    (tmp_path / "data").mkdir()
    assert run.main() == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "../shared/data/real" in said
    assert (tmp_path / "data").is_dir()
