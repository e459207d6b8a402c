"""`kill -9` at random moments of every step, while readers look: `make chaos`, or `python -m tests.crash.chaos --kills 200`.

Two homes take the same deliveries through the same steps. In one every step is killed some times before it may end; the other is
never disturbed. Readers open the published file of the first all the while, one holds it open. At the end both published files
must hold the same rows, and every reader must have seen whole versions only.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import duckdb
import polars as pl
from aiosmtpd.controller import Controller

from tests.conftest import PROJECT_ROOT, clean_environment
from tests.e2e.published import contents, differing_rows
from warehouse.home import Home
from warehouse.landing.outcomes import current_files, landed_tables
from warehouse.publication.publications import CURRENT, REPORT, SAME, current_version, versions

CLUSTER = "one_training_hour_with_every_common_state"
WORLD = PROJECT_ROOT / "tests" / "scenarios" / CLUSTER / "raw"

#: a step → how often it is killed in each round; the dear ones less often
KILLS_PER_ROUND = {"land": 8, "build": 2, "gate": 3, "publish": 8, "digest": 6, "compact": 6, "retention": 6}
#: what a step may leave with: rows were quarantined (4)
GOOD = (0, 4)
#: the first part of a step is Python's imports, where a kill tries nothing
FIRST_PART = 0.3

EXPIRE = """
import sys
from datetime import timedelta
from warehouse import maintenance
from warehouse.publication import publications
from warehouse.landing import retention
from warehouse.database import locked
from warehouse.home import Home
home = Home.from_environment().create()
with locked(home):
    retention.expire(home, samples_days=int(sys.argv[1]), settle_days=0, grace=timedelta(0))
    maintenance.expire_minutes(home, int(sys.argv[1]))
    publications.expire(home.published)
"""

#: as other people's clients do: open read-only, look, close; `hold` looks through one connection for a while
READER = """
import json, sys, time, duckdb
file, stop, pause, hold = sys.argv[1], __import__("pathlib").Path(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
query = '''select (select max(publication_id) from publication), (select count(*) from publication),
    (select max(build_id) from publication), (select count(*) from fct_collection_runs),
    (select round(sum(gpu_hours), 6) from fct_gpu_ledger_hourly),
    (select round(sum(gpu_hours), 6) from mart_ghost_capacity_daily),
    (select round(sum(capacity_gpu_hours), 6) from mart_gpu_net_daily)'''
count, errors, answers, newest = 0, [], {}, ""
while not stop.exists():
    try:
        with duckdb.connect(file, read_only=True) as connection:
            ends_at = time.monotonic() + hold
            while True:
                answer = connection.execute(query).fetchall()[0]
                count += 1
                if answers.setdefault(answer[0], answer) != answer or answer[1] != 1 or answer[0] < newest:
                    errors.append(["mixed", answer, newest])
                newest = answer[0]
                if max(answer[4:]) - min(answer[4:]) > 1e-5:
                    errors.append(["torn", answer])
                if time.monotonic() >= ends_at or stop.exists():
                    break
                time.sleep(pause)
    except Exception as error:
        errors.append(["error", repr(error)])
    time.sleep(pause)
print(json.dumps([count, errors[:20], len(errors), answers]))
"""


class Mailbox:
    """An SMTP server's handler that counts the mails of each recipient."""

    def __init__(self) -> None:
        self.received: Counter[str] = Counter()

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        self.received.update(envelope.rcpt_tos)
        return "250 OK"


@dataclass
class Place:
    """A home and how its steps are run."""

    root: Path
    mail_port: int
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def home(self) -> Home:
        return Home(self.root, self.root / "raw")

    def start(self, step: str, number: int) -> subprocess.Popen[bytes]:
        """Start a step of round `number` as a process group of its own, so that a kill takes dbt with it."""
        mail = {
            "GPU_NET_SMTP_HOST": "127.0.0.1",
            "GPU_NET_SMTP_PORT": str(self.mail_port),
            "GPU_NET_SMTP_STARTTLS": "no",
            "GPU_NET_SMTP_FROM": "gpu-net@example.com",
        }
        log = (self.root.parent / f"{self.root.name}.log").open("ab")
        with log:
            return subprocess.Popen(
                [sys.executable, *command_of(step, number)],
                cwd=PROJECT_ROOT,
                env={**clean_environment(self.root), **(mail if step == "digest" else {})},
                start_new_session=True,
                stdout=log,
                stderr=log,
            )

    def run(self, step: str, number: int) -> None:
        """Run a step to its end, and remember how long it takes."""
        started = time.monotonic()
        code = self.start(step, number).wait()
        if code not in GOOD:
            log = (self.root.parent / f"{self.root.name}.log").read_text(errors="replace")
            raise AssertionError(f"round {number}: {step} left with {code}:\n{log[-4000:]}")
        self.seconds[step] = time.monotonic() - started

    def kill(self, step: str, number: int, seconds: float) -> bool:
        """Run a step and kill it after so many seconds; False where it ended before."""
        process = self.start(step, number)
        try:
            process.wait(timeout=seconds)
            return False
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return True


def command_of(step: str, number: int) -> Sequence[str]:
    """The command line of a step, without the interpreter."""
    if step == "retention":
        # the samples of the round before the last one go
        return ("-c", EXPIRE, str((_today() - _old_day(number - 1)).days))
    return {
        "land": ("-m", "collectors", "incoming"),
        "build": ("-m", "warehouse", "build", *(("--full-refresh",) if number % 4 == 3 else ())),
        "gate": ("-m", "expectations"),
        "publish": ("-m", "warehouse", "publish"),
        "digest": ("-m", "warehouse", "digest", "--send", "--date", "2026-11-02"),
        "compact": ("-m", "warehouse", "compact", "--older-than-hours", "0", "--delete-now"),
    }[step]


def deliver(root: Path, number: int) -> None:
    """Drop round `number` into `incoming`: new GPUs and their samples, a late job, the last one corrected, a broken row."""
    day, hour = _old_day(number).isoformat(), number % 20
    gpus = [f"GPU-chaos-{number}-{position}" for position in range(2)]
    files = {
        "gpu_inventory": ["cluster,node,gpu_uuid,gpu_model,seen_at"]
        + [
            f"{CLUSTER},n{number},{gpu},H100,{date}T0{at}:00:00Z" for gpu in gpus for date in (day, "2026-11-02") for at in (0, 8)
        ],
        "gpu_samples": ["cluster,node,gpu_uuid,interval_start_at,interval_ms,sm_active_ratio,memory_used_bytes"]
        + [
            f"{CLUSTER},n{number},{gpu},{date}T0{at}:{minute:02d}:00Z,60000,0.{minute % 10},20000000000"
            for gpu in gpus
            for date in (day, "2026-11-02")
            for at in (1, 2)
            for minute in range(60)
        ]
        + [f"{CLUSTER},n{number},{gpus[0]},not a time,60000,0.5,1"],
        "runs": ["cluster,scheduler,job_id,name,namespace,state,started_at,ended_at,gpu_count,node_list,observed_at"]
        + [
            f"{CLUSTER},slurm,late-{number},late,ml,COMPLETED,2026-11-02T{hour:02d}:10:00Z,2026-11-02T{hour:02d}:25:30Z,1,n{number},"
            f"2026-11-03T{hour:02d}:00:00Z"
        ]
        + [
            f"{CLUSTER},slurm,late-{number - 1},late,ml,COMPLETED,2026-11-02T{(number - 1) % 20:02d}:10:00Z,"
            f"2026-11-02T{(number - 1) % 20:02d}:55:30Z,1,n{number - 1},2026-11-03T{hour:02d}:00:00Z"
        ]
        * bool(number),
    }
    for table, lines in files.items():
        folder = root / "incoming" / table
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"round-{number}.csv").write_text("\n".join(lines) + "\n")
    config = root / "config"
    config.mkdir(parents=True, exist_ok=True)
    recipients = "".join(f"reader-{reader}@example.com,fleet\n" for reader in range(number + 1))
    (config / "digest_recipients.csv").write_text("recipient,edition\n" + recipients)


def _old_day(number: int) -> date:
    return date(2026, 9, 1) + timedelta(days=2 * number)


def _today() -> date:
    return datetime.now(UTC).date()


def check_whole(place: Place) -> None:
    """What may be asked of a home at any moment: the version shown is whole, and every file that a record lists can be read."""
    shown = current_version(place.home.published)
    if shown is not None:
        with duckdb.connect(str(place.home.published_database), read_only=True) as connection:
            build_id = connection.execute("select build_id from publication").fetchall()
        assert build_id == [(shown.manifest.build_id,)]
    for _, file in current_files(landed_tables(place.home.raw)):
        pl.read_parquet_schema(place.home.raw / file)


@contextmanager
def readers(place: Place, reports: list[Any]) -> Iterator[None]:
    """Three readers of the published file until the end: two that open it again and again, one that holds it for 30 s."""
    stop = place.root.parent / "stop"
    with ExitStack() as stack:
        stack.callback(stop.unlink, missing_ok=True)
        running = []
        for pause, hold in ((0.1, 0.0), (0.3, 0.0), (1.0, 30.0)):
            command = [sys.executable, "-c", READER, str(place.home.published_database), str(stop), str(pause), str(hold)]
            running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        try:
            yield
        finally:
            stop.touch()
            reports += [json.loads(reader.communicate(timeout=120)[0]) for reader in running]


@dataclass(frozen=True)
class Report:
    """What a run of chaos did and saw."""

    kills: Mapping[str, int]
    rounds: int
    answers: int
    errors: Sequence[Any]
    versions_seen: int
    differing: Mapping[str, Sequence[str]]
    leftovers: Sequence[str]
    mails_twice: Sequence[str]
    seconds: float

    @property
    def is_clean(self) -> bool:
        return not (self.errors or self.differing or self.mails_twice or self.leftovers)

    def text(self) -> str:
        killed = ", ".join(f"{count} {step}" for step, count in self.kills.items())
        return "\n".join(
            [
                f"{sum(self.kills.values())} kills in {self.rounds} rounds and {self.seconds / 60:.0f} min: {killed}",
                f"{self.answers:,} answers of {self.versions_seen} versions to 3 readers, {len(self.errors)} errors or mixed",
                *(f"  {error}" for error in self.errors[:10]),
                f"tables that differ from the home that was never killed: {len(self.differing)}",
                *(f"  {table}: {line}" for table, lines in self.differing.items() for line in lines),
                f"left behind: {list(self.leftovers)}; mails sent twice: {list(self.mails_twice)}",
            ]
        )


def wreak(folder: Path, kills: int, seed: int, *, say: Any = click.echo) -> Report:
    """Kill the steps of a home in `folder` `kills` times; both homes stay there for a look."""
    chance, started = random.Random(seed), time.monotonic()
    boxes = [Mailbox(), Mailbox()]
    reports: list[Any] = []
    killed: Counter[str] = Counter()
    say(f"chaos: {kills} kills, seed {seed}, in {folder}")
    with ExitStack() as stack:
        places = []
        for name, box in zip(("calm", "killed"), boxes, strict=True):
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            controller = Controller(box, hostname="127.0.0.1", port=port)
            controller.start()
            stack.callback(controller.stop)
            place = Place(folder / name, port)
            place.root.mkdir(parents=True)
            places.append(place)
        calm, victim = places
        number = 0
        for place in places:
            incoming = place.root / "incoming"
            for path in sorted(WORLD.glob("*.csv")):
                (incoming / path.stem).mkdir(parents=True, exist_ok=True)
                (incoming / path.stem / path.name).write_bytes(path.read_bytes())
            deliver(place.root, number)
            for step in KILLS_PER_ROUND:
                place.run(step, number)
        say(f"  a round takes {', '.join(f'{step} {seconds:.1f} s' for step, seconds in victim.seconds.items())}")
        with readers(victim, reports):
            while sum(killed.values()) < kills:
                number += 1
                for place in places:
                    deliver(place.root, number)
                for step, times in KILLS_PER_ROUND.items():
                    for _ in range(times):
                        moment = chance.uniform(FIRST_PART, 1) * victim.seconds[step]
                        if victim.kill(step, number, moment):
                            killed[step] += 1
                        check_whole(victim)
                    victim.run(step, number)
                    calm.run(step, number)
                say(f"  round {number}: {sum(killed.values())} kills, {time.monotonic() - started:.0f} s")
    answers = sum(report[0] for report in reports)
    say(f"  readers: {answers:,} answers, {sum(report[2] for report in reports)} errors")
    differing = compare(calm, victim)
    twice = [f"{address}: {count}" for box in boxes for address, count in box.received.items() if count > 1]
    seen: dict[str, Any] = {}
    errors = [error for report in reports for error in report[1]]
    for report in reports:
        for publication, answer in report[3].items():
            if seen.setdefault(publication, answer) != answer:
                errors.append(["two readers of one version saw", answer, seen[publication]])
    return Report(
        killed, number, answers, errors, len(seen), differing, left_behind(victim), twice, time.monotonic() - started
    )  # fmt: skip


def compare(calm: Place, victim: Place) -> dict[str, list[str]]:
    """Table → a few rows that only one of the two published files has; empty where they are equal."""
    one, other = calm.home.published_database, victim.home.published_database
    ours, theirs = contents(one), contents(other)
    assert ours.keys() == theirs.keys()
    found = {table: differing_rows(one, other, table) for table in ours if ours[table] != theirs[table]}
    landings = "select collection_run_id, source, rows_landed, rows_quarantined from fct_collection_runs order by all"
    rows = []
    for file in (one, other):
        with duckdb.connect(str(file), read_only=True) as connection:
            rows.append(set(connection.execute(landings).fetchall()))
    if rows[0] != rows[1]:
        found["fct_collection_runs"] = [str(row) for row in sorted(rows[0] ^ rows[1], key=str)[:5]]
    return found


def left_behind(place: Place) -> list[str]:
    """Files and folders of killed processes that the runs after them should have removed."""
    home = place.home
    known = {CURRENT, REPORT, SAME, *(version.name for version in versions(home.published))}
    published = {path.name for path in home.published.iterdir()} - known
    staged = [path for root in (home.raw, home.quarantine) for path in (root / ".staging").glob("*") if path.is_dir()]
    waiting = [path for path in (home.root / "incoming").glob("*/*.csv") if path.parent.parent.name != "done"]
    return sorted(published) + [str(path.relative_to(home.root)) for path in (*staged, *waiting)]


@click.command()
@click.option("--kills", type=int, default=200, show_default=True)
@click.option("--seed", type=int, default=None, help="The seed of the moments; drawn and printed if absent.")
@click.option("--folder", type=click.Path(path_type=Path), default=None, help="An empty folder for the homes, which stay there.")
def main(kills: int, seed: int | None, folder: Path | None) -> None:
    """Kill every step at random moments; exit 1 where a reader saw an error or the rows differ at the end."""
    seed = seed if seed is not None else random.SystemRandom().randrange(10**6)
    report = wreak(folder or Path(tempfile.mkdtemp(prefix="gpu-net-chaos-")), kills, seed)
    click.echo(report.text())
    sys.exit(0 if report.is_clean else 1)


if __name__ == "__main__":
    main()
