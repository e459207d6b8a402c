"""`make up` and `make down`: one Airflow on this machine, ended by its own process tree and nothing else."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import click
import psutil  # type: ignore[import-untyped]

from dags.local.airflow_home import DAGS_FOLDER, PROJECT_ROOT, adopt

AIRFLOW_HOME = PROJECT_ROOT / ".airflow"
PID_FILE = AIRFLOW_HOME / "standalone.json"
LOG_FILE = AIRFLOW_HOME / "standalone.log"
PASSWORDS = AIRFLOW_HOME / "simple_auth_manager_passwords.json.generated"

START_SECONDS = 300
STOP_SECONDS = 10


@dataclass(frozen=True)
class Standalone:
    """The process that `make up` started. A process id alone may by now belong to another program; with the start
    time it cannot."""

    pid: int
    created: float
    port: int

    def save(self) -> None:
        PID_FILE.write_text(json.dumps({"pid": self.pid, "created": self.created, "port": self.port}))

    @classmethod
    def load(cls) -> Standalone | None:
        """What the pid file names, if that very process is still alive."""
        try:
            standalone = cls(**json.loads(PID_FILE.read_text()))
            process = psutil.Process(standalone.pid)
        except (OSError, ValueError, TypeError, psutil.NoSuchProcess):
            return None
        alive = process.create_time() == standalone.created and process.status() != psutil.STATUS_ZOMBIE
        return standalone if alive else None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@click.group()
def main() -> None:
    """Start and end Airflow on this machine."""


@main.command()
@click.option("--port", envvar="GPU_NET_AIRFLOW_PORT", default=8080, show_default=True, help="[GPU_NET_AIRFLOW_PORT]")
def up(port: int) -> None:
    """Start Airflow, wait until it is healthy and has read the DAGs, print address and login."""
    running = Standalone.load()
    if running is None:
        _require_free(port)
        running = _start(port)
    started = time.monotonic()
    while not _is_healthy(running):
        if Standalone.load() is None:
            _fail("Airflow ended while starting")
        if time.monotonic() - started > START_SECONDS:
            _fail(f"Airflow is not healthy after {START_SECONDS} s (`make down` ends it)")
        time.sleep(0.5)
    _print_welcome(running)


@main.command()
def down() -> None:
    """End the Airflow that `up` started, with all its children."""
    running = Standalone.load()
    if running is None:
        click.echo("Airflow is not running here")
    else:
        _end(running)
        click.echo("Airflow has ended")
    PID_FILE.unlink(missing_ok=True)


def _require_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise click.ClickException(
                f"port {port} is in use by another program; choose one: GPU_NET_AIRFLOW_PORT=8081 make up"
            ) from None


def _start(port: int) -> Standalone:
    adopt(AIRFLOW_HOME, port)
    click.echo(f"starting Airflow (log: {LOG_FILE.relative_to(PROJECT_ROOT)}) …")
    with LOG_FILE.open("ab") as log:
        # the database is made by another process, so that this one stays small and importing Airflow happens once
        made = subprocess.run(
            [sys.executable, "-c", "from dags.local.airflow_home import prepare_database as p; p()"],
            cwd=PROJECT_ROOT,
            stdout=log,
            stderr=log,
            check=False,
        )
        if made.returncode:
            _fail("the metadata database could not be made")
        process = subprocess.Popen(
            [sys.executable, "-m", "airflow", "standalone"],
            cwd=PROJECT_ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    standalone = Standalone(process.pid, psutil.Process(process.pid).create_time(), port)
    standalone.save()
    return standalone


def _get(url: str, token: str | None = None) -> Any:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def _is_healthy(standalone: Standalone) -> bool:
    try:
        health = _get(f"{standalone.address}/api/v2/monitor/health")
        parts = ("metadatabase", "scheduler", "dag_processor", "triggerer")
        return all(health[part]["status"] == "healthy" for part in parts) and _has_read_dags(standalone)
    except (OSError, KeyError, ValueError):
        return False


def _token(standalone: Standalone) -> str:
    login = json.dumps({"username": "admin", "password": json.loads(PASSWORDS.read_text())["admin"]}).encode()
    request = urllib.request.Request(f"{standalone.address}/auth/token", data=login, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return str(json.load(answer)["access_token"])


def _dags(standalone: Standalone) -> Any:
    return _get(f"{standalone.address}/api/v2/dags?limit=100", _token(standalone))


def _import_errors(standalone: Standalone) -> Any:
    return _get(f"{standalone.address}/api/v2/importErrors", _token(standalone))["import_errors"]


def _has_read_dags(standalone: Standalone) -> bool:
    files = [path for path in DAGS_FOLDER.glob("*.py") if not path.name.startswith("gpu_net_")]
    return len(_dags(standalone)["dags"]) + len(_import_errors(standalone)) >= len(files)


def _print_welcome(standalone: Standalone) -> None:
    errors = _import_errors(standalone)
    click.echo(f"Airflow   {standalone.address}")
    click.echo(f"login     admin / {json.loads(PASSWORDS.read_text())['admin']}")
    click.echo(f"DAGs      {', '.join(dag['dag_id'] for dag in _dags(standalone)['dags'])}")
    click.echo(f"data      {os.environ.get('GPU_NET_HOME') or 'warehouse/data'}")
    click.echo("end it    make down")
    for error in errors:
        click.echo(f"DAG file not read: {error['filename']}\n{error['stack_trace']}", err=True)
    if errors:
        sys.exit(1)


def _fail(reason: str) -> None:
    lines = LOG_FILE.read_text(errors="replace").splitlines()[-20:]
    raise click.ClickException(f"{reason}; the last lines of {LOG_FILE}:\n" + "\n".join(lines))


def _end(standalone: Standalone) -> None:
    """Ask the parent to end its components, then end what is left of the tree as it was and as it is.

    Only an interrupt makes `airflow standalone` take its children along; a child that outlives it would no longer be
    found through it, so the tree is listed before.
    """
    parent = psutil.Process(standalone.pid)
    tree = {process.pid: process for process in [parent, *parent.children(recursive=True)]}
    parent.send_signal(signal.SIGINT)
    deadline = time.monotonic() + STOP_SECONDS
    while parent.is_running() and parent.status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline:
        tree |= {process.pid: process for process in _children(parent)}
        time.sleep(0.2)
    for end in (psutil.Process.terminate, psutil.Process.kill):
        left = [process for process in tree.values() if process.is_running()]
        for process in left:
            for child in [*_children(process), process]:
                tree[child.pid] = child
                _signal(end, child)
        psutil.wait_procs(list(tree.values()), timeout=5)


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return list(process.children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def _signal(end: Any, process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        end(process)


if __name__ == "__main__":
    main(prog_name="python -m dags.local.standalone")
