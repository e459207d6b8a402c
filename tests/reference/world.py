"""A world: the landing-shape rows of one cluster, typed. Instants are integer microseconds since 1970-01-01 UTC."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

MICROSECOND = timedelta(microseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
HOUR_US = 60 * MINUTE_US
DAY_US = 24 * HOUR_US
GIB = 2**30

Row = Mapping[str, str]


@dataclass(frozen=True)
class Sample:
    gpu: str
    slot: str | None  # None: the reading speaks for the whole device
    node: str
    source: str
    start: int
    end: int
    activity: float | None
    signal: str
    memory: int | None
    memory_total: int | None
    power: float | None
    temperature: float | None
    clock: float | None
    clock_reference: float | None
    reasons: int
    xid: int | None


@dataclass(frozen=True)
class InventoryRecord:
    gpu: str
    node: str
    slot: str | None
    compute_slices: int | None
    card_slices: int
    memory_total: int | None
    is_lost: bool
    at: int
    index: int | None = None
    profile: str | None = None
    model: str = "unknown"


@dataclass(frozen=True)
class NodeRecord:
    """What a node has for jobs beside GPUs; `partitions`: the queues it serves."""

    node: str
    cpu_count: Fraction | None
    memory: int | None
    partitions: tuple[str, ...]
    at: int


@dataclass(frozen=True)
class WorkloadRule:
    workload: str
    kind: str | None
    latency_target: Fraction | None
    min_replicas: int | None
    capacity: Fraction | None  # work per second of one replica


@dataclass(frozen=True)
class NodeState:
    node: str
    state: str
    start: int
    end: int | None


@dataclass(frozen=True)
class Run:
    run_id: str
    job_id: str
    scheduler: str
    start: int | None
    end: int | None
    observed: int
    gpu_count: float | None
    profile: str | None  # MIG profile of each of the `gpu_count` instances; None: whole devices
    share: float | None
    nodes: tuple[str, ...]
    suspended_us: int
    kind: str
    namespace: str = ""
    name: str = ""
    is_known_by_name: bool = False
    queue: str = ""
    cpu_count: Fraction | None = None
    memory: int | None = None
    replica_group: str = ""
    workload: str = ""  # with its namespace: a service, where the kind is inference
    rule: WorkloadRule | None = None


@dataclass(frozen=True)
class RunGpu:
    job_id: str
    node: str
    gpu: str | None
    slot: str | None
    count: float
    share: float | None
    start: int
    end: int | None
    index: int | None = None  # of a device whose id the source does not tell
    profile: str | None = None  # MIG profile of `count` instances that are not told
    is_label: bool = False


@dataclass(frozen=True)
class Process:
    """A process seen on a device; `job` is the job id or pod uid it belongs to, where the source knows."""

    gpu: str
    slot: str | None
    node: str
    at: int
    job: str | None


@dataclass(frozen=True)
class Usage:
    """What a server of a service did over an interval; `tokens`: output and a quarter of the uncached prompt."""

    workload: str
    job_id: str
    server: str
    start: int
    end: int
    requests: Fraction
    tokens: Fraction | None
    waiting: float
    kv_use: Fraction | None
    kv_pool: int | None
    latencies: tuple[tuple[float, float], ...]  # (upper bound in seconds, requests up to it), the last one infinite
    model: str = ""

    def is_of(self, run: Run) -> bool:
        """Whether the server is the run's: by its job, else the server is named like the run."""
        return self.job_id == run.job_id if self.job_id else _without_port(self.server) == run.name


@dataclass(frozen=True)
class Request:
    """A request that the gateway's log tells of; `workload` without its namespace."""

    workload: str
    at: int
    seconds: Fraction


@dataclass(frozen=True)
class World:
    cluster: str
    samples: Sequence[Sample]
    inventory: Sequence[InventoryRecord]
    node_states: Sequence[NodeState]
    runs: Sequence[Run]
    run_gpus: Sequence[RunGpu]
    processes: Sequence[Process]
    usage: Sequence[Usage]
    requests: Sequence[Request]
    nodes: Sequence[NodeRecord]
    scheduler_through: int | None
    telemetry_through: int | None


def read_world(folder: Path, cluster: str) -> World:
    """The world of a folder of `<landing_table>.csv` files."""
    tables: dict[str, list[Row]] = {}
    for path in sorted(folder.glob("*.csv")):
        with path.open(newline="") as text:
            tables[path.stem] = [row for row in csv.DictReader(text) if row.get("cluster", cluster) == cluster]
    return make_world(cluster, tables)


def make_world(cluster: str, tables: Mapping[str, Sequence[Row]]) -> World:
    """Type the rows; of two rows with one key the later one stands."""
    samples = {(s.gpu, s.slot, s.source, s.start): s for s in map(_sample, tables.get("gpu_samples", ()))}
    inventory = {(r.gpu, r.slot, r.at): r for r in map(_inventory, tables.get("gpu_inventory", ()))}
    states = {(s.node, s.state, s.start): s for s in map(_node_state, tables.get("node_states", ()))}
    run_gpus = {
        (r.job_id, r.node, r.gpu, r.slot, r.index, r.profile, r.start): r for r in map(_run_gpu, tables.get("run_gpus", ()))
    }
    through = {name: _last_instant(rows) for name, rows in tables.items()}
    runs = _of_kind(_attempts(_run(cluster, row, tables.get("workload_rules", ())) for row in tables.get("runs", ())), tables)
    return World(
        cluster,
        sorted(samples.values(), key=lambda s: (s.gpu, s.slot or "", s.source, s.start)),
        sorted(inventory.values(), key=lambda r: (r.gpu, r.at, r.slot or "")),
        sorted(states.values(), key=lambda s: (s.node, s.start, s.state)),
        runs,
        list(run_gpus.values()),
        [_process(row) for row in tables.get("gpu_processes", ())],
        list(
            {(u.server, u.start, u.model): u for u in (_usage(row, runs) for row in tables.get("inference_usage", ()))}.values()
        ),
        [
            Request(row.get("workload") or "", instant(row["started_at"]), Fraction(row["latency_ms"]) / 1000)
            for row in tables.get("inference_requests", ())
            if row.get("latency_ms")
        ],
        sorted((_node(row) for row in tables.get("nodes", ())), key=lambda node: node.at),
        _latest(through.get(name) for name in ("runs", "run_gpus", "nodes", "node_states")),
        _latest(through.get(name) for name in ("gpu_samples", "gpu_processes", "gpu_inventory", "node_samples")),
    )


def instant(text: str) -> int:
    """ISO 8601 with an offset → microseconds."""
    return (datetime.fromisoformat(text).astimezone(UTC) - EPOCH) // MICROSECOND


def stamp(at: int) -> str:
    """Microseconds → ISO 8601, `Z`, with a fraction of a second only where there is one."""
    return (EPOCH + timedelta(microseconds=at)).replace(tzinfo=None).isoformat() + "Z"


def _attempts(runs: Iterable[Run]) -> list[Run]:
    """Section 3: one run per attempt, the row observed last stands."""
    latest: dict[str, Run] = {}
    for run in runs:
        if run.run_id not in latest or run.observed >= latest[run.run_id].observed:
            latest[run.run_id] = run
    return sorted(latest.values(), key=lambda run: run.run_id)


def _sample(row: Row) -> Sample:
    start = instant(row["interval_start_at"])
    activity, signal = None, "none"
    for column, name in (
        ("sm_active_ratio", "sm_active"),
        ("graphics_engine_active_ratio", "graphics_engine_active"),
        ("gpu_utilization_ratio", "gpu_utilization"),
    ):
        value = _reading(row.get(column))
        # section 4: readings up to 1.02 are clipped, above they are unusable and the next signal is tried
        if value is not None and 0 <= value <= 1.02:
            activity, signal = min(value, 1.0), name
            break
    application, maximum = _reading(row.get("sm_clock_application_mhz")), _reading(row.get("sm_clock_max_mhz"))
    return Sample(
        gpu=row["gpu_uuid"],
        slot=row.get("slot_uuid") or None,
        node=row["node"],
        source=row.get("source") or "import",
        start=start,
        end=start + int(row["interval_ms"]) * 1000,
        activity=activity,
        signal=signal,
        memory=_whole(row.get("memory_used_bytes")),
        memory_total=_whole(row.get("memory_total_bytes")),
        power=_reading(row.get("power_watts")),
        temperature=_reading(row.get("temperature_celsius")),
        clock=_reading(row.get("sm_clock_mhz")),
        clock_reference=application or maximum,
        reasons=_whole(row.get("clock_event_reasons")) or 0,
        xid=_whole(row.get("xid")),
    )


def _inventory(row: Row) -> InventoryRecord:
    return InventoryRecord(
        gpu=row["gpu_uuid"],
        node=row["node"],
        slot=row.get("slot_uuid") or None,
        compute_slices=_whole(row.get("compute_slices")),
        card_slices=_whole(row.get("card_slices")) or 7,
        memory_total=_whole(row.get("memory_total_bytes")),
        is_lost=(row.get("is_lost") or "").lower() == "true",
        at=instant(row["seen_at"]),
        index=_whole(row.get("gpu_index")),
        profile=row.get("mig_profile") or None,
        model=row.get("gpu_model") or "unknown",
    )


def _node(row: Row) -> NodeRecord:
    return NodeRecord(
        node=row["node"],
        cpu_count=_exact(row.get("cpu_count")),
        memory=_whole(row.get("memory_bytes")),
        partitions=tuple(name.strip() for name in (row.get("partitions") or "").split(",") if name.strip()),
        at=instant(row["seen_at"]),
    )


def _node_state(row: Row) -> NodeState:
    return NodeState(row["node"], row["state"], instant(row["started_at"]), _instant_or_none(row.get("ended_at")))


def _run(cluster: str, row: Row, rules: Sequence[Row]) -> Run:
    start = _instant_or_none(row.get("started_at"))
    run_id = f"{cluster}/{row['job_id']}"
    if row["scheduler"] != "kubernetes" and start is not None:
        run_id += f"@{stamp(start)}"
    namespace = row.get("namespace") or "-"
    rule = _rule(cluster, namespace, row, rules)
    return Run(
        run_id=run_id,
        job_id=row["job_id"],
        scheduler=row["scheduler"],
        start=start,
        end=_instant_or_none(row.get("ended_at")),
        observed=instant(row["observed_at"]),
        gpu_count=_reading(row.get("gpu_count")),
        profile=row.get("mig_profile") or None,
        share=_reading(row.get("share_ratio")),
        nodes=tuple(name for name in (row.get("node_list") or "").split(",") if name),
        suspended_us=round(float(row.get("suspended_seconds") or 0) * SECOND_US),
        kind=_kind(row),
        namespace=namespace,
        name=row["name"],
        queue=row.get("queue") or "",
        cpu_count=_exact(row.get("cpu_count")),
        memory=_whole(row.get("memory_bytes")),
        replica_group=row.get("replica_group") or "",
        workload=f"{namespace}/{rule.workload if rule else _workload(row)}",
        rule=rule,
    )


def _workload(row: Row) -> str:
    """Section 3: by labels, else by name with each run of digits written #."""
    label = json.loads(row.get("labels") or "{}").get("app.kubernetes.io/name")
    return row.get("owner_name") or label or re.sub(r"\d+", "#", row["name"]) or "unknown"


def _rule(cluster: str, namespace: str, row: Row, rules: Sequence[Row]) -> WorkloadRule | None:
    """Section 3: rules are tried by rising priority, the regex searched in the name, those in force on the run's first day."""
    day = (row.get("started_at") or row.get("submitted_at") or row["observed_at"])[:10]
    for rule in sorted(rules, key=lambda rule: int(rule["priority"])):
        if (
            rule.get("cluster") in (None, "", cluster)
            and rule.get("namespace") in (None, "", namespace)
            and re.search(rule.get("name_regex") or "", row["name"])
            and (rule.get("valid_from") or "")[:10] <= day < ((rule.get("valid_to") or "9")[:10])
        ):
            return WorkloadRule(
                workload=rule["workload"],
                kind=rule.get("kind") or None,
                latency_target=_exact(rule.get("latency_target_p95_seconds")),
                min_replicas=_whole(rule.get("min_replicas")),
                capacity=_exact(rule.get("replica_capacity_per_second")),
            )
    return None


def _of_kind(runs: Sequence[Run], tables: Mapping[str, Sequence[Row]]) -> list[Run]:
    """A workload of which inference telemetry is known is inference, unless a rule says what it is."""
    rows = tables.get("inference_usage", ())
    jobs = {row.get("job_id") for row in rows if row.get("job_id")}
    serving = {f"{row.get('namespace') or '-'}/{row['workload']}" for row in rows if row.get("workload")}
    serving |= {run.workload for run in runs if run.job_id in jobs}
    kinds = {run.run_id: "inference" if run.workload in serving else run.kind for run in runs}
    return [replace(run, kind=(run.rule.kind if run.rule else None) or kinds[run.run_id]) for run in runs]


def _kind(row: Row) -> str:
    """Section 3: the kind of a workload without a rule and without inference telemetry."""
    if "interactive" in (row.get("labels") or "") or "jupyter" in row["name"].lower():
        return "interactive"
    if row.get("owner_kind") == "CronJob":
        return "batch"
    if row["scheduler"] == "slurm" or row.get("owner_kind") in ("Job", "PyTorchJob", "RayJob"):
        return "training"
    return "unknown"


def _run_gpu(row: Row) -> RunGpu:
    return RunGpu(
        job_id=row["job_id"],
        node=row["node"],
        gpu=row.get("gpu_uuid") or None,
        slot=row.get("slot_uuid") or None,
        count=float(row["gpu_count"]),
        share=_reading(row.get("share_ratio")),
        start=instant(row["started_at"]),
        end=_instant_or_none(row.get("ended_at")),
        index=None if row.get("gpu_uuid") else _whole(row.get("gpu_index")),
        profile=None if row.get("gpu_uuid") else row.get("mig_profile") or None,
        is_label=(row.get("assignment_method") or "").startswith("exporter_label"),
    )


def _process(row: Row) -> Process:
    job = row.get("job_id") or row.get("pod_uid") or None
    return Process(row["gpu_uuid"], row.get("slot_uuid") or None, row["node"], instant(row["seen_at"]), job)


def _usage(row: Row, runs: Sequence[Run]) -> Usage:
    """Section 8: a row belongs to the workload of its job, else of its workload and namespace, else of its server."""
    start = instant(row["interval_start_at"])
    of_job = [run.workload for run in runs if row.get("job_id") and run.job_id == row["job_id"]]
    named = [f"{row.get('namespace') or '-'}/{row['workload']}"] if row.get("workload") else []
    of_server = [run.workload for run in runs if run.name == _without_port(row["server"])]
    histogram = json.loads(row.get("latency_histogram") or "[]")
    return Usage(
        workload=(of_job + named + of_server + [f"{row.get('namespace') or '-'}/{row['server']}"])[0],
        job_id=row.get("job_id") or "",
        server=row["server"],
        start=start,
        end=start + int(row["interval_ms"]) * 1000,
        requests=_exact(row["request_count"]) or Fraction(0),
        tokens=_tokens(row),
        waiting=float(row.get("waiting_requests") or 0),
        kv_use=_exact(row.get("kv_cache_usage_ratio")),
        kv_pool=_whole(row.get("kv_cache_total_bytes")),
        latencies=tuple(sorted((float(bucket["le_seconds"]), float(bucket["count"])) for bucket in histogram)),
        model="/".join((row["model"], row.get("adapter") or "")),
    )


def _without_port(server: str) -> str:
    return re.sub(r":\d+$", "", server)


def _tokens(row: Row) -> Fraction | None:
    """Rule 6: output tokens + uncached prompt tokens / 4; nothing where the row tells of neither."""
    output, prompt = _exact(row.get("output_tokens")), _exact(row.get("prompt_tokens"))
    if output is None and prompt is None:
        return None
    uncached = prompt or Fraction(0)
    if (row.get("prompt_includes_cached") or "true").lower() == "true":
        uncached -= _exact(row.get("cached_prompt_tokens")) or Fraction(0)
    return (output or Fraction(0)) + uncached / 4


def _last_instant(rows: Sequence[Row]) -> int | None:
    """The last instant a table's rows name: the end of an interval, else the latest of all instants."""
    if rows and "interval_ms" in rows[0]:
        return max(instant(row["interval_start_at"]) + int(row["interval_ms"]) * 1000 for row in rows)
    return _latest(_instant_or_none(value) for row in rows for name, value in row.items() if name.endswith("_at"))


def _latest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _instant_or_none(text: str | None) -> int | None:
    return instant(text) if text else None


def _reading(text: str | None) -> float | None:
    """A number, or None for what is no number, NaN, negative or a DCGM blank (all of them far above any reading here)."""
    try:
        value = float(text or "nan")
    except ValueError:
        return None
    return None if math.isnan(value) or value < 0 or value >= 140737488355328.0 else value


def _exact(text: str | None) -> Fraction | None:
    return Fraction(text) if text else None


def _whole(text: str | None) -> int | None:
    value = _reading(text)
    return None if value is None else int(value)
