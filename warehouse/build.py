"""Build the warehouse: find the days touched since the last build, run dbt once, record what was built.

The build database is private to the build and has one writer. dbt runs in a subprocess (`dbtRunner` would keep its
locks in this process). What a build consumed is recorded only after every node succeeded, so a build that was killed
or failed is simply done again: the days it would have replaced are still touched.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import click
import duckdb

from warehouse import control
from warehouse.atomic import replaced
from warehouse.command_line import INSTANT
from warehouse.database import WarehouseLockedError, locked
from warehouse.home import PROJECT_ROOT, Home
from warehouse.init.land import config_messages
from warehouse.landing import damage, shape
from warehouse.landing.landings import Window
from warehouse.landing.outcomes import LandedTable, current_files, landed_tables
from warehouse.verdict import last_build

logger = logging.getLogger(__name__)

DBT_PROJECT = PROJECT_ROOT / "dbt_project"
#: what dbt read of the project, kept beside it: a full parse takes longer than most builds of a small fleet
PARSED = DBT_PROJECT / "target" / "partial_parse.msgpack"
EVERYTHING = Window(None, None)


class BuildFailedError(Exception):
    """dbt did not finish every node; the message names the first ones that failed."""


@dataclass(frozen=True)
class BuildSummary:
    """What one build did. `status` is `succeeded` or `nothing_to_do`."""

    build_id: str
    status: str
    days: int
    seconds: float
    is_full_refresh: bool

    def text(self) -> str:
        if self.status == "nothing_to_do":
            return "build: nothing has landed since the last build"
        kind = "full refresh" if self.is_full_refresh else "incremental"
        return f"build {self.build_id}: {kind}, {self.days} days replaced, {self.seconds:.1f} s"


def build(home: Home, window: Window = EVERYTHING, *, full_refresh: bool = False) -> BuildSummary:
    """Bring the build database up to date with the landings, or rebuild the days of `window`.

    Raises BuildFailedError when dbt fails, WarehouseLockedError when another command holds the warehouse.
    """
    home.create()
    with locked(home):
        started_at = datetime.now(UTC).replace(tzinfo=None)
        landed = landed_tables(home.raw)
        with control.open_build_database(home) as connection:
            last = last_build(connection)
            interrupted = control.interrupted_build(connection)
            version = project_version()
            full_refresh = full_refresh or last is None or last.version != version or interrupted.was_full_refresh
            if full_refresh:
                # every day is built, each as of all that has landed: a window has nothing left to say
                window = EVERYTHING
            set_aside = damage.find_damaged(connection, home.raw, [file for _, file in current_files(landed)])
            for message in damage.messages(home.raw, set_aside):
                logger.warning(message)
            # a landing of which a file is damaged counts as not seen, so that it is built when it is whole again
            damaged_landings = {record.collection_run_id for record in landed if set_aside.keys() & set(record.files)}
            landed = damage.without(landed, set_aside)
            fresh = landed if full_refresh else control.not_consumed(connection, landed)
            if not full_refresh:
                fresh = [record for record in fresh if record.files or record.collection_run_id not in damaged_landings]
            has_new_rows = any(record.status == "landed" for record in fresh)
            is_due = (
                full_refresh
                or control.is_windowed(window)
                or has_new_rows
                or interrupted.is_one
                or control.has_pending_days(connection)
            )
            if not is_due:
                return BuildSummary(last.build_id if last else "", "nothing_to_do", 0, 0.0, False)
            is_renewal = full_refresh
            if full_refresh and last is not None and control.sealed_days(landed):
                # dbt's own full refresh would begin with empty tables, and what has expired could not be worked out again
                control.owe_every_day(connection)
                full_refresh = False
            build_id = f"{started_at:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}"
            control.write_inputs(connection, home, landed, fresh, window, build_id=build_id, full_refresh=is_renewal)
            connection.execute("checkpoint")
        try:
            run_dbt(home, full_refresh=full_refresh)
        except BuildFailedError as error:
            _name_broken_files(home, landed, fresh, error)
            raise
        with control.open_build_database(home) as connection:
            days = control.record_build(
                connection,
                build_id=build_id,
                started_at=started_at,
                version=version,
                window=window,
                full_refresh=full_refresh,
                consumed=[record for record in fresh if record.collection_run_id not in damaged_landings],
            )
        seconds = (datetime.now(UTC).replace(tzinfo=None) - started_at).total_seconds()
        return BuildSummary(build_id, "succeeded", days, seconds, full_refresh)


def _name_broken_files(home: Home, landed: Sequence[LandedTable], fresh: Sequence[LandedTable], error: BuildFailedError) -> None:
    """Raise what dbt said with the landed files that break when they are read; nothing where none does."""
    current = {file for _, file in current_files(landed)}
    for records in (fresh, landed):
        files = sorted({file for record in records for file in record.files if file in current})
        if broken := damage.unreadable(home.raw, files):
            told = "\n".join(f"{home.raw / file} {fault}: move it away, then {damage.REMEDY}" for file, fault in broken.items())
            raise BuildFailedError(f"{told}\n{error}") from error


def project_version() -> str:
    """The software's version with a hash of its rules (dbt project, landing shape): when they change, all days are built anew."""
    digest = hashlib.sha256()
    suffixes = {".sql", ".yml", ".csv", ".md"}
    files = [path for path in DBT_PROJECT.rglob("*") if path.suffix in suffixes and not _is_artifact(path)]
    for path in [*sorted(files), Path(shape.__file__), Path(__file__).with_name("control.py")]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return f"{metadata.version('gpu-net')}+{digest.hexdigest()[:12]}"


def _is_artifact(path: Path) -> bool:
    return bool({"target", "logs", "dbt_packages"} & set(path.relative_to(DBT_PROJECT).parts))


def run_dbt(home: Home, *, full_refresh: bool, select: Sequence[str] = ()) -> None:
    """`dbt build` on the build database, one process for all models; its lines go to stdout as they come."""
    artifacts = home.build / "dbt"
    command = [
        *(str(Path(sys.executable).with_name("dbt")), "--no-use-colors", "build"),
        *("--project-dir", str(DBT_PROJECT), "--profiles-dir", str(DBT_PROJECT)),
        *("--target-path", str(artifacts / "target"), "--log-path", str(artifacts / "logs")),
        *("--exclude-resource-type", "unit_test"),
        # `hold_keys` asks for all keys at once when all is built
        *("--exclude", "test_name:unique_key"),
    ]
    if full_refresh:
        command.append("--full-refresh")
    if select:
        command += ["--select", *select]
    artifacts.mkdir(parents=True, exist_ok=True)
    (artifacts / "target" / "run_results.json").unlink(missing_ok=True)
    forget_moved(artifacts / "target" / PARSED.name)
    verbose = bool(os.environ.get("GPU_NET_VERBOSE"))
    with (artifacts / "last_run.log").open("w") as log:
        finished = subprocess.run(
            command, env=dbt_environment(home), stdout=None if verbose else log, stderr=subprocess.STDOUT, check=False
        )
    if finished.returncode == 0:
        _keep_parsed(artifacts / "target" / PARSED.name)
    failures = [
        f"{node['unique_id']}: {node['message']}" for node in read_run_results(home) if node["status"] in ("error", "fail")
    ]
    if finished.returncode or failures:
        tail = "" if verbose or failures else "\n" + (artifacts / "last_run.log").read_text()[-3000:]
        raise BuildFailedError(
            f"dbt failed (log: {artifacts / 'last_run.log'}); nothing was published\n" + "\n".join(failures[:5]) + tail
        )


def dbt_environment(home: Home) -> dict[str, str]:
    """The environment dbt runs in: where it builds, and what it has read of the project before.

    dbt reads a project anew wherever the text that names the database differs, so every home's is named alike: DuckDB
    finds `~` by HOME.
    """
    forget_moved(PARSED)
    parsed = {"DBT_PARTIAL_PARSE_FILE_PATH": str(PARSED)} if PARSED.exists() else {}
    return {
        **os.environ,
        **parsed,
        "HOME": str(home.build),
        "GPU_NET_BUILD_DATABASE": f"~/{home.build_database.name}",
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
    }


def forget_moved(parsed: Path) -> None:
    """Remove what dbt read of a project in another folder, as after an upgrade beside the old version: it finds no seed there."""
    with suppress(OSError):
        if b"\xa9root_path" + _packed(str(DBT_PROJECT)) not in parsed.read_bytes():
            parsed.unlink()


def _packed(text: str) -> bytes:
    """A text as msgpack writes it: its length, then UTF-8."""
    raw = text.encode()
    if len(raw) < 32:
        return bytes([0xA0 | len(raw)]) + raw
    return (b"\xd9" + bytes([len(raw)]) if len(raw) < 256 else b"\xda" + len(raw).to_bytes(2)) + raw


def _keep_parsed(parsed: Path) -> None:
    """Keep what dbt read of the project for the next build, of whatever home; an installation may be read-only."""
    try:
        if not PARSED.exists() or parsed.stat().st_mtime_ns > PARSED.stat().st_mtime_ns:
            with replaced(PARSED) as kept:
                shutil.copyfile(parsed, kept)
    except OSError:
        pass


def read_run_results(home: Home) -> list[dict[str, Any]]:
    """dbt's result per node of the last run; empty where it left none."""
    path = home.build / "dbt" / "target" / "run_results.json"
    if not path.exists():
        return []
    results: list[dict[str, Any]] = json.loads(path.read_text())["results"]
    return results


def build_window(since: datetime | None, until: datetime | None) -> Window:
    """The window of `--since` and `--until`; a usage error where it is empty."""
    if since and until and until <= since:
        raise click.UsageError("--until must lie after --since")
    return Window(since, until)


@click.command("build")
@click.option("--since", type=INSTANT, help="Rebuild from this instant or date on (UTC).")
@click.option("--until", type=INSTANT, help="Rebuild up to this instant or date, exclusive (UTC).")
@click.option("--full-refresh", is_flag=True, help="Build every day anew.")
def build_command(since: datetime | None, until: datetime | None, full_refresh: bool) -> None:
    """Build the days touched since the last build, or the days named, with the rate cards and rules of `config/`."""
    home, window = Home.from_environment(), build_window(since, until)
    try:
        for message in config_messages(home):
            click.echo(message, err=True)
        summary = build(home, window, full_refresh=full_refresh)
    except (BuildFailedError, WarehouseLockedError, duckdb.Error) as error:
        click.echo(f"build failed: {error}", err=True)
        sys.exit(1)
    click.echo(summary.text())
