"""`make bi-superset`: build Superset's environment, start it with the dashboard over the published database, and end it.

Everything lies in `.bi/superset` of the project: the virtual environment, which is never the project's own (Superset wants other
versions of what both use), the metadata database, the secrets, the log.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

import click
import psutil  # type: ignore[import-untyped]

from warehouse.home import PROJECT_ROOT, Home

FOLDER = PROJECT_ROOT / ".bi" / "superset"
LOCK = PROJECT_ROOT / "requirements" / "superset.txt"
ASSETS = PROJECT_ROOT / "dbt_project" / "dashboards" / "superset"
SERVE = Path(__file__).with_name("serve.py")
DASHBOARD = "gpu-net"
START_SECONDS = 600
STOP_SECONDS = 20


@dataclass(frozen=True)
class Server:
    """A Superset that was started; a process id alone may by now belong to another program, with the start time it cannot."""

    pid: int
    created: float
    port: int

    @classmethod
    def load(cls, folder: Path) -> Server | None:
        """The one that `folder` remembers, if that very process is alive."""
        try:
            server = cls(**json.loads((folder / "server.json").read_text()))
            process = psutil.Process(server.pid)
            alive = process.create_time() == server.created and process.status() != psutil.STATUS_ZOMBIE
        except (OSError, ValueError, TypeError, psutil.NoSuchProcess):
            return None
        return server if alive else None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def end(self) -> None:
        """End it and its workers."""
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.pid)
            family = [process, *process.children(recursive=True)]
            process.send_signal(signal.SIGTERM)
            for survivor in psutil.wait_procs(family, timeout=STOP_SECONDS)[1]:
                survivor.kill()


def build_environment(folder: Path = FOLDER) -> Path:
    """Superset's interpreter; its environment is made where it is missing or older than its lock."""
    python, stamp = folder / "venv" / "bin" / "python", folder / "venv" / ".installed"
    if stamp.exists() and stamp.read_text() == LOCK.read_text():
        return python
    click.echo("building Superset's own environment; the first time takes some minutes")
    shutil.rmtree(folder / "venv", ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    uv = Path(sys.executable).with_name("uv")
    install = ["pip", "install", "--quiet", "--python", str(python), "--require-hashes", "-r", str(LOCK)]
    for command in ([str(uv), "venv", "--quiet", "--python", sys.executable, str(folder / "venv")], [str(uv), *install]):
        done = subprocess.run(command, check=False)
        if done.returncode:
            _fail("Superset could not be installed: see the lines above, then run this again")
    stamp.write_text(LOCK.read_text())
    return python


def start(database: Path, port: int, folder: Path = FOLDER) -> Server:
    """Start Superset over a published database; returns when it answers."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    for name in ("secret_key", "admin_password"):
        if not (folder / name).exists():
            (folder / name).write_text(secrets.token_urlsafe(32 if name == "secret_key" else 12))
    (folder / "ready").unlink(missing_ok=True)
    python = FOLDER / "venv" / "bin" / "python"
    arguments = [str(SERVE), "serve", str(folder), str(ASSETS), str(database), str(port)]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [str(python), *arguments],
            cwd=folder,
            env={name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SUPERSET", "FLASK"))},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    server = Server(process.pid, psutil.Process(process.pid).create_time(), port)
    (folder / "server.json").write_text(json.dumps(asdict(server)))
    deadline = time.monotonic() + START_SECONDS
    while not ((folder / "ready").exists() and _is_healthy(server)):
        if process.poll() is not None:
            _fail(f"Superset ended while starting; the last lines of {folder / 'log'}:\n{_last_lines(folder / 'log')}")
        if time.monotonic() > deadline:
            server.end()
            _fail(f"Superset does not answer after {START_SECONDS} s; see {folder / 'log'}")
        time.sleep(0.5)
    return server


def _is_healthy(server: Server) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"{server.address}/health", timeout=5) as answer:
        return bool(answer.status == 200)
    return False


def _last_lines(path: Path) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-15:])


def _require_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            _fail(f"port {port} is in use by another program; choose one: GPU_NET_SUPERSET_PORT=8089 make bi-superset")


def _fail(message: str) -> NoReturn:
    click.echo(message, err=True)
    sys.exit(1)


@click.group()
def main() -> None:
    """Apache Superset over the published database, on this machine."""


@main.command()
@click.option("--port", envvar="GPU_NET_SUPERSET_PORT", default=8088, show_default=True, help="[GPU_NET_SUPERSET_PORT]")
def up(port: int) -> None:
    """Build Superset's environment where it is missing, load the dashboard, start, print address and login."""
    database = Home.from_environment().published_database
    if not database.exists():
        demo = PROJECT_ROOT / ".demo" / "data"
        hint = f"export GPU_NET_HOME={demo}, or " if (demo / "published").exists() else "`make demo`, or "
        _fail(f"nothing is published in {Home.from_environment().root}: {hint}land a source, then `python -m warehouse run`")
    server = Server.load(FOLDER)
    if server is None:
        build_environment()
        _require_free(port)
        click.echo(f"starting Superset (log: {(FOLDER / 'log').relative_to(PROJECT_ROOT)}) …")
        server = start(database, port)
    click.echo(f"dashboard  {server.address}/superset/dashboard/{DASHBOARD}/")
    click.echo(f"login      admin, {(FOLDER / 'admin_password').read_text().strip()}")
    click.echo("end it     make bi-superset-down")


@main.command()
def down() -> None:
    """End the Superset that `up` started."""
    server = Server.load(FOLDER)
    if server:
        server.end()
    click.echo("Superset has ended" if server else "Superset is not running here")
    (FOLDER / "server.json").unlink(missing_ok=True)


@main.command()
def export() -> None:
    """Write the dashboard as it now is in the running Superset over the one in dbt_project/dashboards/superset."""
    server = Server.load(FOLDER)
    if server is None:
        _fail("Superset is not running here: `make bi-superset`, change the dashboard in it, then run this again")
    python = FOLDER / "venv" / "bin" / "python"
    subprocess.run([str(python), str(SERVE), "export", str(FOLDER), str(ASSETS), DASHBOARD], check=True)
    click.echo(f"wrote {ASSETS.relative_to(PROJECT_ROOT)}; see what changed with git diff")
