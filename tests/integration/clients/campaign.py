"""`make bi-clients`: readers loop in every client while versions are published; none may err or see a mixture.

Each client has an environment of its own below `.bi/clients`, made once by uv or npm from the package index; what cannot be had
here is skipped and says why. Superset reads along where `make bi-superset` has made its environment.
`GPU_NET_TEST_PUBLICATIONS` says how many versions are published (50).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conftest import PROJECT_ROOT
from tests.integration.clients.reading import QUERIES
from tests.unit.expectations.fake_build import allow, make_build
from warehouse.home import Home
from warehouse.publication import publish
from warehouse.superset import command as superset

FOLDER = PROJECT_ROOT / ".bi" / "clients"
READERS = Path(__file__).parent
UV = Path(sys.executable).with_name("uv")
NUMBERED = ("update fct_gpu_ledger_hourly set energy_kwh = {n}", "update mart_gpu_net_daily set energy_kwh = {n}")
START_SECONDS = 120


@dataclass(frozen=True)
class Client:
    """A client and the packages that its environment holds; without packages it is read from this one."""

    name: str
    reader: str
    packages: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return FOLDER / self.name

    @property
    def command(self) -> list[str]:
        reader = str(READERS / self.reader)
        if self.reader.endswith(".mjs"):
            return ["node", reader]
        python = self.folder / "bin" / "python" if self.packages else Path(sys.executable)
        return [str(python), reader]

    @property
    def is_there(self) -> bool:
        return not self.packages or (self.folder / "complete").exists()

    def install(self) -> str:
        """Make its environment where it is missing; what went wrong, or nothing."""
        if self.is_there:
            return ""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        try:
            for command in self._installing():
                subprocess.run(command, cwd=self.folder, check=True, capture_output=True, text=True)
        except FileNotFoundError as error:
            return f"{error.filename} is not installed"
        except subprocess.CalledProcessError as error:
            return (error.stderr.strip().splitlines() or ["the installation failed"])[-1]
        (self.folder / "complete").touch()
        return ""

    def _installing(self) -> list[list[str]]:
        if self.reader.endswith(".mjs"):
            return [["node", "--version"], ["npm", "install", "--no-audit", "--no-fund", "--silent", *self.packages]]
        return [
            [str(UV), "venv", "--quiet", "--allow-existing", "--python", sys.executable, "."],
            [str(UV), "pip", "install", "--quiet", "--python", "bin/python", *self.packages],
        ]


CLIENTS = (
    Client("duckdb", "read_duckdb.py"),
    *(Client(f"duckdb-{version}", "read_duckdb.py", (f"duckdb=={version}",)) for version in ("1.2.2", "1.3.2", "1.4.5")),
    Client("sqlalchemy", "read_sqlalchemy.py", ("sqlalchemy==2.0.44", "duckdb-engine==0.17.0", "duckdb==2.0.1", "packaging")),
    Client("polars", "read_polars.py", ("polars==1.35.2", "duckdb==1.4.5", "pyarrow==21.0.0")),
    Client("pandas", "read_pandas.py", ("pandas==2.3.3", "duckdb==1.4.5", "numpy==2.3.4")),
    Client("node", "read_node.mjs", ("@duckdb/node-api@1.5.6-r.1",)),
)
#: asks by HTTP, of a server that reads; there is nothing to install for the asking
SUPERSET = Client("superset", "read_superset.py")


@contextmanager
def superset_over(home: Home, folder: Path) -> Iterator[dict[str, str]]:
    """A Superset over the home's published file; what its reader needs in the environment. Empty where it is not installed."""
    if not (superset.FOLDER / "venv" / ".installed").exists():
        yield {}
        return
    own = folder / "superset"
    own.mkdir()
    for name in ("superset.db", "secret_key", "admin_password"):
        # a metadata database that is there already saves its making, which takes a minute
        if (superset.FOLDER / name).exists():
            shutil.copy(superset.FOLDER / name, own / name)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    server = superset.start(home.published_database, port, own)
    try:
        (version,) = re.findall(r"^apache-superset==(\S+)", superset.LOCK.read_text(), re.MULTILINE)
        password = (own / "admin_password").read_text()
        yield {"SUPERSET_ADDRESS": server.address, "SUPERSET_PASSWORD": password, "SUPERSET_VERSION": version}
    finally:
        server.end()


def run(home: Home, clients: Sequence[Client], publications: int, folder: Path) -> dict[str, dict[str, Any]]:
    """Publish so many versions while every client reads; per client what it saw."""
    publish_number(home, 1)
    with superset_over(home, folder) as environment:
        everyone = [*clients, SUPERSET] if environment else clients
        return _run(home, everyone, publications, folder, {**clean(), **environment})


def _run(
    home: Home, clients: Sequence[Client], publications: int, folder: Path, environment: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    stop = folder / "stop"
    readers = {}
    for client in clients:
        arguments = [*client.command, str(home.published_database), str(stop)]
        if client.reader.endswith(".mjs"):
            arguments.append(json.dumps(QUERIES))
        cwd = client.folder if client.packages else folder
        readers[client.name] = subprocess.Popen(
            arguments, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    try:
        _wait_until_all_have_read(folder, readers)
        for number in range(2, publications + 2):
            publish_number(home, number)
            # a moment of every version's own
            time.sleep(0.3)
    finally:
        stop.touch()
        answers = {name: reader.communicate(timeout=120) for name, reader in readers.items()}
    return {
        name: json.loads(shown) if shown.strip() else {"version": "?", "reads": 0, "errors": 1, "first_error": said[-500:]}
        for name, (shown, said) in answers.items()
    }


def _wait_until_all_have_read(folder: Path, readers: dict[str, subprocess.Popen[str]]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while len(list(folder.glob("stop.*"))) < len(readers) and time.monotonic() < deadline:
        if any(reader.poll() is not None for reader in readers.values()):
            return
        time.sleep(0.1)


def publish_number(home: Home, number: int) -> None:
    """Publish a version in which every energy figure is `number`."""
    allow(home, make_build(home, *(statement.format(n=number) for statement in NUMBERED), number=number))
    assert publish.publish(home).status == publish.PUBLISHED


def clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("GPU_NET_", "PYTHON", "VIRTUAL_ENV"))}


def main() -> None:
    from rich.console import Console
    from rich.table import Table

    publications = int(os.environ.get("GPU_NET_TEST_PUBLICATIONS", "50"))
    console = Console()
    ready, missing = [], {}
    for client in CLIENTS:
        if not client.is_there:
            console.print(f"installing {client.name}: {' '.join(client.packages)}")
        if reason := client.install():
            missing[client.name] = reason
        else:
            ready.append(client)
    console.print(f"{len(ready)} clients read while {publications} versions are published …")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["GPU_NET_HOME"] = str(folder / "home")
        seen = run(Home.from_environment(), ready, publications, folder)
    table = Table("client", "version", "reads", "versions seen", "errors", "mixed", box=None, pad_edge=False)
    for name, one in seen.items():
        table.add_row(name, one["version"], *(f"{one.get(key, 0):,}" for key in ("reads", "seen", "errors", "mixed")))
    for name, reason in missing.items():
        table.add_row(name, "skipped", reason)
    console.print(table)
    bad = {name: one.get("first_error") for name, one in seen.items() if one["errors"] or one["mixed"] or one["seen"] < 2}
    for name, error in bad.items():
        console.print(f"{name}: {error or 'saw a mixture, or only one version'}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
