"""A PostgreSQL of the test's own: Debian's package, a cluster in a folder of its own, ended by its own process id."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def find_programs() -> Path | None:
    """The folder of `initdb` and `postgres`, of the newest version; Debian keeps them off the PATH."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb") if path.with_name("postgres").exists()]
    on_path = shutil.which("initdb")
    return max(found, key=lambda path: float(path.parent.name), default=Path(on_path).resolve().parent if on_path else None)


PROGRAMS = find_programs()
REASON = "no PostgreSQL on this machine (Debian: apt-get install postgresql)"
PASSWORD = "s3cret word"


@contextmanager
def postgres_server() -> Iterator[str]:
    """The address of a database `gpu`, of whose user `owner` the password is asked."""
    assert PROGRAMS is not None
    with tempfile.TemporaryDirectory(prefix="gpu-net-postgres-") as name:
        folder = Path(name)
        # PostgreSQL refuses to run as root
        user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        if user:
            os.chown(folder, user.pw_uid, user.pw_gid)
        identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
        (folder / "password").write_text(PASSWORD)
        (folder / "password").chmod(0o644)
        data = folder / "data"
        subprocess.run(
            [
                *(str(PROGRAMS / "initdb"), "-D", str(data), "-U", "owner", "--no-sync"),
                *("--auth=scram-sha-256", f"--pwfile={folder / 'password'}", "--encoding=UTF8", "--locale=C"),
            ],
            check=True,
            capture_output=True,
            cwd=folder,
            **identity,  # type: ignore[call-overload]
        )
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        settings = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": "", "fsync": "off"}
        arguments = [part for setting in settings.items() for part in ("-c", "{}={}".format(*setting))]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [str(PROGRAMS / "postgres"), "-D", str(data), *arguments], stdout=log, stderr=log, cwd=folder, **identity
            )
        try:
            url = f"postgresql://owner:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{port}/postgres"
            _wait_for(url, process)
            yield url
        finally:
            # fast shutdown: running statements are ended
            process.send_signal(signal.SIGINT)
            process.wait(60)


def _wait_for(url: str, process: subprocess.Popen[bytes], seconds: float = 60) -> None:
    from adbc_driver_postgresql import dbapi

    deadline = time.monotonic() + seconds
    while True:
        assert process.poll() is None, "PostgreSQL has ended"
        with suppress(dbapi.Error):
            dbapi.connect(url).close()
            return
        assert time.monotonic() < deadline, "PostgreSQL did not get ready"
        time.sleep(0.1)
