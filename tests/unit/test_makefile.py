"""The front door: what `make` lists, and that it installs the locked packages whatever the shell it is started from says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.conftest import PROJECT_ROOT

MAKEFILE = (PROJECT_ROOT / "Makefile").read_text()
#: audit-accepted.txt is a list of advisories
LOCKS = sorted(path for path in (PROJECT_ROOT / "requirements").glob("*.txt") if path.stem != "audit-accepted")
#: environments of their own
APART = ("superset", "audit")

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(*arguments: str, text: str = "", **environment: str) -> str:
    """Run make with the project's Makefile and the rules in `text`; its output."""
    command = ["make", "-f", "Makefile", *(("-f", "-") if text else ()), *arguments]
    return subprocess.run(
        command, cwd=PROJECT_ROOT, env={**os.environ, **environment}, input=text, capture_output=True, text=True, check=True
    ).stdout


def targets() -> set[str]:
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert phony
    return set(phony.group(1).split())


def test_make_alone_lists_every_target_with_a_sentence() -> None:
    listed = dict(re.findall(r"^  make ([\w-]+) +(\S.*)$", make(), re.MULTILINE))
    assert set(listed) == targets()
    assert all(len(sentence.split()) >= 3 for sentence in listed.values())


def test_every_target_that_needs_the_environment_makes_it_first() -> None:
    for target in targets() - {"help", "clean"}:
        assert re.search(rf"^{target}: \$\(STAMP\) ##", MAKEFILE, re.MULTILINE), f"{target} runs without .venv"


def test_settings_of_other_projects_for_pip_and_uv_do_not_reach_the_install() -> None:
    odd = {
        "PIP_TARGET": "/elsewhere",
        "PIP_USER": "1",
        "PIP_CONSTRAINT": "/absent.txt",
        "PIP_NO_DEPS": "1",
        "UV_SYSTEM_PYTHON": "1",
        "UV_TARGET": "/elsewhere",
        "PYTHONPATH": "/elsewhere",
        "PYTHONDONTWRITEBYTECODE": "1",
        "VIRTUAL_ENV": "/elsewhere",
    }
    index = {"PIP_INDEX_URL": "https://index.example/simple", "UV_CACHE_DIR": "/cache"}
    seen = dict(line.split("=", 1) for line in make("show", text="show:\n\t@env\n", **odd, **index).splitlines() if "=" in line)
    assert {name: seen.get(name) for name in odd} == {**dict.fromkeys(odd), "PIP_USER": "0"}
    assert {name: seen.get(name) for name in index} == index


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_every_locked_package_has_a_version_and_hashes(lock: Path) -> None:
    blocks = re.split(r"\n(?=\S)", lock.read_text().strip())
    packages = [block for block in blocks if not block.startswith("#")]
    assert packages
    for block in packages:
        assert re.match(r"[A-Za-z0-9._-]+(\[[\w,-]+\])?==\S+", block), block.splitlines()[0]
        assert "--hash=sha256:" in block, block.splitlines()[0]
    assert "://" not in lock.read_text(), "no package is bound to one index"


def test_the_lock_holds_every_package_that_the_project_asks_for() -> None:
    project = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(name for extra in project["optional-dependencies"].values() for name in extra)]
    locked = set(re.findall(r"^([A-Za-z0-9._-]+)", (PROJECT_ROOT / "requirements" / "dev.txt").read_text(), re.MULTILINE))
    names = {re.split(r"[\[<>=~! ;]", requirement, maxsplit=1)[0].lower() for requirement in asked}
    assert names <= {name.lower() for name in locked}, "run `make lock`"


def test_the_smaller_locks_agree_with_the_one_that_is_tested() -> None:
    def versions(path: Path) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for name, version in re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==(\S+)", path.read_text(), re.MULTILINE):
            found.setdefault(name.lower(), set()).add(version)
        return found

    tested = versions(PROJECT_ROOT / "requirements" / "dev.txt")
    for lock in LOCKS:
        if lock.stem not in ("dev", "bootstrap", *APART):
            for name, found in versions(lock).items():
                assert found <= tested[name], f"{lock.name}: {name}"


def test_ci_runs_the_targets_that_people_run() -> None:
    script = PROJECT_ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "make lint test" in script.read_text()


def test_an_error_in_lint_is_not_passed_over() -> None:
    recipe = MAKEFILE.split("\nlint:")[1].split("\n\n")[0]
    commands = [line.strip() for line in recipe.splitlines()[1:]]
    assert len(commands) == 5
    assert not any(command.startswith("@-") or "||" in command or "|" in command for command in commands)
