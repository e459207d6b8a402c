"""`python -m warehouse docs`: every model, column, test, exposure and metric as one HTML page that needs no network.

dbt makes the page (`dbt docs generate --static`) from what it reads of the project alone: no database is opened, so that a build
may run meanwhile and a fresh clone has docs too. Columns and types are those of the contracts.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import click

from warehouse.atomic import replaced
from warehouse.build import DBT_PROJECT, dbt_environment
from warehouse.home import PROJECT_ROOT, Home

DEFAULT = PROJECT_ROOT / "build" / "docs.html"


class DocsFailedError(Exception):
    """dbt could not read the project or write the page; the message ends with what it said."""


def write_docs(page: Path) -> Path:
    """Write the page; its path. Raises DocsFailedError, OSError."""
    with tempfile.TemporaryDirectory(prefix="gpu-net-docs-") as folder:
        home = Home(Path(folder), Path(folder) / "raw").create()
        target = home.build / "target"
        _run_dbt(home, target, "parse")
        _run_dbt(home, target, "docs", "generate", "--static", "--empty-catalog", "--no-compile")
        # where this was made is nobody's business
        text = (target / "static_index.html").read_text(encoding="utf-8").replace(str(DBT_PROJECT), "dbt_project")
    page.parent.mkdir(parents=True, exist_ok=True)
    with replaced(page) as made:
        made.write_text(text, encoding="utf-8")
        made.chmod(0o644)
    return page


def _run_dbt(home: Home, target: Path, *arguments: str) -> None:
    command = [
        *(str(Path(sys.executable).with_name("dbt")), "--no-use-colors", *arguments),
        *("--project-dir", str(DBT_PROJECT), "--profiles-dir", str(DBT_PROJECT)),
        *("--target-path", str(target), "--log-path", str(home.build / "logs")),
    ]
    done = subprocess.run(command, env=dbt_environment(home), capture_output=True, text=True, check=False)
    if done.returncode:
        raise DocsFailedError(f"dbt {arguments[0]} failed:\n{(done.stdout + done.stderr)[-2000:]}")


@click.command("docs")
@click.option("--to", "page", type=click.Path(path_type=Path, dir_okay=False), default=DEFAULT, help="The file to write.")
def docs_command(page: Path) -> None:
    """Every model, column, test, exposure and metric as one HTML page (default: build/docs.html in the project)."""
    try:
        click.echo(write_docs(page.absolute()))
    except (DocsFailedError, OSError) as error:
        click.echo(f"no docs: {error}", err=True)
        sys.exit(1)
