"""The audit believes no service that knows nothing, and no exception that has no reason."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.project import audit

BAD = {
    "dependencies": [
        {"name": "jinja2", "version": "2.11.2", "vulns": [{"id": "PYSEC-2021-66", "fix_versions": ["2.11.3"]}]},
        {"name": "ours", "skip_reason": "Dependency not found on PyPI"},
    ]
}
GOOD = {"dependencies": [{"name": "jinja2", "version": "3.1.6", "vulns": []}]}
SILENT = {"dependencies": [{"name": "jinja2", "skip_reason": "Dependency not found on PyPI"}]}


def answer(monkeypatch: pytest.MonkeyPatch, canary: Any, locked: Any, accepted: str = "") -> None:
    def ask(service: str, requirements: Path) -> Mapping[str, Any] | None:
        report: Mapping[str, Any] | None = locked if requirements.name == "dev.txt" else canary
        return report if service == "pypi" else None

    monkeypatch.setattr(audit, "ask", ask)
    monkeypatch.setattr(audit, "read_accepted", lambda text: set(accepted.split()))
    monkeypatch.delenv("AUDIT_REQUIRED", raising=False)


def test_an_advisory_fails_and_names_its_remedy(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    answer(monkeypatch, BAD, BAD)
    assert audit.main() == 1
    assert "jinja2 2.11.2: PYSEC-2021-66, fixed in 2.11.3" in capsys.readouterr().out


def test_an_accepted_advisory_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, BAD, BAD, accepted="PYSEC-2021-66")
    assert audit.main() == 0


def test_packages_without_advisories_pass(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    answer(monkeypatch, BAD, GOOD)
    assert audit.main() == 0
    assert "0 advisories" in capsys.readouterr().out


@pytest.mark.parametrize("canary", [None, GOOD, SILENT])
def test_a_service_that_does_not_know_a_known_advisory_is_not_believed(
    canary: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mirror of the index without advisories answers that nothing is known of anything."""
    answer(monkeypatch, canary, GOOD)
    assert audit.main() == 0
    assert "audit skipped" in capsys.readouterr().out
    monkeypatch.setenv("AUDIT_REQUIRED", "1")
    assert audit.main() == 1


def test_an_exception_needs_a_reason() -> None:
    assert audit.read_accepted("# PYSEC-1 x\nPYSEC-2\nPYSEC-3 we never parse that; until 2027-01\n\n") == {"PYSEC-3"}
