"""What to do next: what is missing, behind or broken, each with the command that helps, the most pressing first."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import duckdb

from warehouse import control
from warehouse.database import connect
from warehouse.digest.editions import RecipientsError, read_recipients
from warehouse.home import Home
from warehouse.init.land import TABLE_NAMES, path_of, read_said
from warehouse.landing.outcomes import LandedTable, outcome_frame
from warehouse.publication import publications
from warehouse.publication.rollback import rollback_in_force
from warehouse.verdict import HOLD, Build, Verdict, last_build, read_verdict

CHECK = "python -m collectors check"
RUN = "python -m warehouse run"
INIT = "python -m warehouse init"

#: published data older than this are old news: sources are collected hourly, bills come daily
OLD = timedelta(hours=26)
#: the gate's own bound: below it ratios are told as an interval (semantics 6)
LEAST_COVERAGE = 0.95
#: an agent writes its spool each interval and lands it each hour
SILENT_SECONDS, LANDED_SECONDS = 600.0, 2 * 3600.0
DAYS = 7


@dataclass(frozen=True)
class Advice:
    """What is the matter, and the command (or the file to edit) that helps."""

    what: str
    do: str


def read_build(home: Home) -> tuple[Build | None, bool]:
    """The last build, and whether rows have landed since; raises duckdb.Error while a build is running."""
    if not home.build_database.exists():
        return None, False
    with connect(home.build_database, read_only=True) as connection:
        build = last_build(connection)
        if build is None:
            return None, False
        frame = outcome_frame(home.raw)
        consumed = {row[0] for row in connection.execute("select collection_run_id from control.consumed").fetchall()}
        has_new = frame is not None and any(
            status == "landed" and run_id not in consumed
            for run_id, status in frame.select("collection_run_id", "status").iter_rows()
        )
        return build, has_new or control.has_pending_days(connection)


def advise(home: Home, landed: Sequence[LandedTable], now: datetime) -> list[Advice]:
    """Everything to do, the most pressing first; empty where all is as it should be."""
    if not any(record.status == "landed" and record.rows_landed for record in landed):
        nothing = Advice("nothing has landed yet", f"{CHECK}, then the collector of what it finds (python -m collectors --help)")
        return [*_failures(home), *_waiting(home), nothing]
    return [
        *_config_problems(home),
        *_failures(home),
        *_waiting(home),
        *_behind(home, now),
        *_gaps_in_the_answer(home, landed),
    ]


def _config_problems(home: Home) -> Iterator[Advice]:
    for table_name in TABLE_NAMES:
        problems = read_said(home, table_name).problems()
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        if problems:
            yield Advice(f"{problems[0]}{more}", f"edit {path_of(home, table_name)}, then {RUN}")
    try:
        _, refused = read_recipients(home)
    except RecipientsError as error:
        refused = [str(error)]
    if refused:
        yield Advice(refused[0], f"edit {home.config / 'digest_recipients.csv'}")


def _failures(home: Home) -> Iterator[Advice]:
    """The sources whose last attempt failed; its error names the remedy."""
    frame = outcome_frame(home.raw)
    if frame is None:
        return
    newest: dict[tuple[str, str | None], tuple[str, str | None]] = {}
    for source, cluster, status, error in (
        frame.sort("landed_at", maintain_order=True).select("source", "cluster", "status", "error").iter_rows()
    ):
        if status in ("landed", "failed") and source != "config":
            newest[source, cluster] = (status, error)
    for (source, cluster), (status, error) in sorted(newest.items(), key=str):
        if status == "failed":
            where = f" ({cluster})" if cluster else ""
            yield Advice(f"{source}{where} failed last: {error}", f"python -m collectors {source}, when that is mended")


def _waiting(home: Home) -> Iterator[Advice]:
    """Files that nobody has landed: those dropped into `incoming`, and what the agent on this host left."""
    incoming = home.root / "incoming"
    waiting = [path for path in incoming.rglob("*") if path.is_file() and path.relative_to(incoming).parts[0] != "done"]
    if waiting:
        count = "1 file waits" if len(waiting) == 1 else f"{len(waiting)} files wait"
        yield Advice(f"{count} in {incoming}", "python -m collectors incoming")
    clock = time.time()
    for folder in sorted((home.state / "nvml").glob("*")):
        ages = sorted(clock - path.stat().st_mtime for path in folder.glob("*.jsonl"))
        if ages and ages[0] > SILENT_SECONDS:
            yield Advice(
                f"the agent of {folder.name} is not running, and what it read last has not landed",
                "systemctl start gpu-net-nvml, or python -m collectors nvml: it lands what is there first",
            )
        elif ages and ages[-1] > LANDED_SECONDS:
            yield Advice(
                f"the agent of {folder.name} has landed nothing for {ages[-1] / 3600:.0f} h", "read its log for the reason"
            )


def _behind(home: Home, now: datetime) -> Iterator[Advice]:
    """Build, gate and publication, where one of them is behind."""
    try:
        build, has_new = read_build(home)
    except duckdb.Error:
        yield Advice("a build is running", "wait until it has ended")
        return
    if build is None:
        unedited = not any(path_of(home, name).exists() for name in TABLE_NAMES)
        yield Advice("nothing is built", f"{INIT}, fill in prices and teams, then {RUN}" if unedited else RUN)
        return
    verdict = read_verdict(home)
    is_edited = any(_is_edited(home, name, build) for name in TABLE_NAMES)
    if not build.is_finished:
        yield Advice("the last build did not finish", f"{RUN}; if it fails again, read {home.build / 'dbt' / 'last_run.log'}")
    elif has_new or is_edited:
        yield Advice("there is more landed than built" if has_new else "a file of config/ was edited since the last build", RUN)
    elif verdict is None or verdict.build_id != build.build_id:
        yield Advice("the last build has not been through the gate", RUN)
    if verdict is not None and verdict.verdict == HOLD and verdict.build_id == build.build_id:
        yield from _held(verdict)
    elif verdict is not None and verdict.build_id == build.build_id:
        yield from _unpublished(home, build, now)


def _is_edited(home: Home, table_name: str, build: Build) -> bool:
    path = path_of(home, table_name)
    if not path.exists() or not read_said(home, table_name).rows.height:
        return False
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).replace(tzinfo=None) > build.started_at


def _held(verdict: Verdict) -> Iterator[Advice]:
    for check in [check for check in verdict.checks if not check.success and check.severity == "critical"][:3]:
        yield Advice(f"the build is held by {check.check_id}: {check.observed}", check.message)


def _unpublished(home: Home, build: Build, now: datetime) -> Iterator[Advice]:
    current = publications.current_version(home.published)
    if current is None:
        yield Advice("the last build may be published and is not", "python -m warehouse publish")
        return
    with connect(home.published_database, read_only=True) as connection:
        row = connection.execute("select data_through_at from publication").fetchone()
    rollback = rollback_in_force(home.published)
    if rollback and build.build_id in rollback.builds:
        forward = f"python -m warehouse rollback {rollback.from_version}"
        what = f"readers see {current.name} since the rollback of {rollback.at[:16]} UTC"
        yield Advice(what, f"correct what was wrong with build {build.build_id}, then {RUN}; or go forward again: {forward}")
    elif not publications.shows(current, build.build_id):
        yield Advice("readers still see an older build", "python -m warehouse publish")
    elif row is not None and row[0] is not None and now - row[0] > OLD:
        days = (now - row[0]) / timedelta(days=1)
        yield Advice(f"the newest published data are {days:.1f} days old", "collect again (see the table above), then " + RUN)


def _gaps_in_the_answer(home: Home, landed: Sequence[LandedTable]) -> Iterator[Advice]:
    """What readers cannot be told: prices, teams, what the time held was used for."""
    if publications.current_version(home.published) is None:
        return
    with connect(home.published_database, read_only=True) as connection:
        unpriced = connection.execute(_UNPRICED, {"days": DAYS}).fetchall()
        unnamed = connection.execute(_UNNAMED, {"days": DAYS}).fetchone()
        unobserved = connection.execute(_UNOBSERVED, {"days": DAYS, "least_coverage": LEAST_COVERAGE}).fetchall()
    if unpriced:
        listed = ", ".join(f"{model} in {cluster} ({hours:,.0f} GPU-hours)" for cluster, model, hours in unpriced[:3])
        more = f" and {len(unpriced) - 3} more" if len(unpriced) > 3 else ""
        yield Advice(f"no price is known of {listed}{more}", _fill_in(home, "rate_cards", "the price"))
    if unnamed and unnamed[0]:
        count = "1 workload" if unnamed[0] == 1 else f"{unnamed[0]} workloads"
        yield Advice(
            f"{count} ({unnamed[1]:.0%} of the time held) without a team",
            _fill_in(home, "workload_rules", "the team"),
        )
    for cluster, coverage in unobserved:
        has_readings = any(record.table_name == "gpu_samples" and cluster in record.through for record in landed)
        if has_readings:
            yield Advice(
                f"{coverage:.0%} of the time held in {cluster} was observed: some hosts report nothing",
                "select * from mart_data_coverage_daily in the published database",
            )
        else:
            yield Advice(
                f"no readings of the GPUs of {cluster}: what the time held was used for is not known",
                "python -m collectors nvml on each GPU host, or dcgm --url, or prometheus --url",
            )


def _fill_in(home: Home, table_name: str, what: str) -> str:
    return f"{INIT} adds the lines that are missing; fill in {what} in {path_of(home, table_name)}, then {RUN}"


_UNPRICED = """
select cluster, gpu_model, sum(gpu_hours) as hours from fct_gpu_ledger_hourly
where cost_source = 'unpriced'
    and hour_start_at >= (select max(hour_start_at) from fct_gpu_ledger_hourly) - to_days($days)
group by cluster, gpu_model having sum(gpu_hours) > 0 order by hours desc, cluster, gpu_model
"""

_UNNAMED = """
select count(distinct workload_id) filter (team = 'unknown'),
    coalesce(sum(held_gpu_hours) filter (team = 'unknown') / nullif(sum(held_gpu_hours), 0), 0)
from mart_workload_gpu_hours_daily
where held_gpu_hours > 0 and usage_date > (select max(usage_date) from mart_workload_gpu_hours_daily) - $days
"""

_UNOBSERVED = """
select cluster, 1 - sum(unobserved_gpu_hours) / sum(held_gpu_hours) as coverage from mart_gpu_net_daily
where usage_date > (select max(usage_date) from mart_gpu_net_daily) - $days
group by cluster having sum(held_gpu_hours) > 0 and coverage < $least_coverage order by coverage, cluster
"""
