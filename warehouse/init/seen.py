"""Which GPU models and workloads have been landed, and how much they held: what a person is asked to price and to name.

Read from the landed files, so that it can be asked before the first build. Names and kinds are those that the build gives
without rules (`dbt_project/models/intermediate/runs/int_runs_named.sql`; a test holds the two together).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import duckdb

from warehouse.home import Home
from warehouse.landing.outcomes import current_files, landed_tables
from warehouse.landing.shape import LINEAGE, TABLES
from warehouse.sql import compose, identifier, joined, literal, literals, type_name

#: what the build calls a GPU of which nobody told the model
UNKNOWN_MODEL = "unknown"
READ_TABLES = ("gpu_inventory", "gpu_samples", "runs", "inference_usage", "billing_lines", "rate_cards", "workload_rules")
_DUCKDB_TYPES = {
    "timestamp": "timestamp",
    "integer": "bigint",
    "double": "double",
    "money": "decimal(38, 12)",
    "boolean": "boolean",
}


_EMPTY_VIEW = "create view {name} as from {empty}"
_VIEW = """create view {name} as
    from {empty}
    union all by name select * from read_parquet([{files}], union_by_name = true, hive_partitioning = false)"""


@dataclass(frozen=True)
class SeenModel:
    """GPUs of one model, provider and cluster. `count` of GPUs is 0 where only a scheduler knows them."""

    cluster: str
    gpu_model: str
    provider: str | None
    count: int
    first_seen_at: datetime | None
    asked_for: tuple[str, ...] = ()


@dataclass(frozen=True)
class SeenWorkload:
    """Runs of one name. `names` are the runs' own; `other_names` those of the namespace's other workloads."""

    cluster: str
    namespace: str
    workload: str
    kind: str
    owner_name: str | None
    joined: int
    names: frozenset[str]
    other_names: frozenset[str]
    runs: int
    gpu_hours: float
    last_seen_at: datetime | None


@dataclass(frozen=True)
class Seen:
    """Biggest first; `currencies` are those of bills and rate cards."""

    models: tuple[SeenModel, ...]
    workloads: tuple[SeenWorkload, ...]
    currencies: tuple[str, ...]


@dataclass(frozen=True)
class Rule:
    """Where a rule applies; None is everywhere."""

    cluster: str | None
    namespace: str | None
    name_regex: str | None


@dataclass(frozen=True)
class Card:
    """What a rate card prices; None is any."""

    gpu_model: str
    provider: str | None
    cluster: str | None

    def prices(self, model: SeenModel) -> bool:
        """Whether the build would take this card for GPUs of that model."""
        return (
            _key(self.gpu_model) == _key(model.gpu_model)
            and (self.cluster is None or self.cluster == model.cluster)
            and (self.provider is None or _key(self.provider) == _key(model.provider))
        )


def _key(text: str | None) -> str:
    return (text or "").strip().lower()


@contextmanager
def landed(home: Home) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection in which each landing table that is read here is a view of its landed files."""
    files: dict[str, list[str]] = defaultdict(list)
    for name, file in current_files(landed_tables(home.raw)):
        files[name].append(str(home.raw / file))
    with duckdb.connect() as connection:
        connection.execute("set TimeZone = 'UTC'")
        for name in READ_TABLES:
            typed = {column.name: _DUCKDB_TYPES.get(column.kind, "varchar") for column in (*TABLES[name].columns, *LINEAGE)}
            columns = joined(
                ", ",
                (
                    compose("cast(null as {kind}) as {name}", kind=type_name(kind), name=identifier(column))
                    for column, kind in typed.items()
                ),
            )
            empty = identifier(f"{name}_empty")
            connection.execute(compose("create view {empty} as select {columns} where false", empty=empty, columns=columns))
            view = _VIEW if files[name] else _EMPTY_VIEW
            connection.execute(compose(view, name=identifier(name), empty=empty, files=literals(files[name])))
        yield connection


def look(home: Home, rules: Sequence[Rule]) -> Seen:
    """What has been landed, without the runs that `rules` or the landed rules name already."""
    with landed(home) as connection:
        every_rule = [*rules, *(Rule(*row) for row in connection.execute(_RULES).fetchall())]
        found = connection.execute(compose(_MODELS, unknown_model=literal(UNKNOWN_MODEL))).fetchall()
        models = tuple(_model(row) for row in found)
        currencies = tuple(row[0] for row in connection.execute(_CURRENCIES).fetchall())
        workloads = tuple(_workloads(connection, every_rule))
    return Seen(models, workloads, currencies)


def _model(row: tuple[Any, ...]) -> SeenModel:
    cluster, gpu_model, provider, count, first_seen_at, asked_for = row
    return SeenModel(cluster, gpu_model, provider, count, first_seen_at, tuple(name for name in asked_for or () if name))


def landed_cards(home: Home) -> list[Card]:
    """The rate cards that have been landed, by whatever way."""
    with landed(home) as connection:
        return [Card(*row) for row in connection.execute(_CARDS).fetchall()]


def _workloads(connection: duckdb.DuckDBPyConnection, rules: Sequence[Rule]) -> Iterator[SeenWorkload]:
    connection.execute("create table rules (cluster varchar, namespace varchar, name_regex varchar)")
    if rules:
        connection.executemany("insert into rules values (?, ?, ?)", [(r.cluster, r.namespace, r.name_regex) for r in rules])
    found = connection.execute(compose(_WORKLOADS, job_kinds=literals(_JOB_KINDS)))
    columns = [column[0] for column in found.description or ()]
    rows: list[Mapping[str, Any]] = [dict(zip(columns, row, strict=True)) for row in found.fetchall()]
    names: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for row in rows:
        names[row["cluster"], row["namespace"]][row["workload"]] |= set(row["every_name"])
    for row in rows:
        if not row["gpu_hours"] or not row["names"]:
            continue
        neighbours = names[row["cluster"], row["namespace"]]
        others = frozenset(name for other, theirs in neighbours.items() if other != row["workload"] for name in theirs)
        yield SeenWorkload(
            cluster=row["cluster"],
            namespace=row["namespace"],
            workload=row["workload"],
            kind=row["kind"],
            owner_name=row["owner_name"],
            joined=row["joined"],
            names=frozenset(row["names"]),
            other_names=others - set(row["every_name"]),
            runs=row["runs"],
            gpu_hours=row["gpu_hours"],
            last_seen_at=row["last_seen_at"],
        )


#: of GPUs whose own resource is on a bill nobody needs to give a price; those of unknown model are the ones that only
#: readings or a scheduler tell of
_MODELS = """
with devices as (
    select cluster, gpu_uuid, max_by(gpu_model, seen_at) as gpu_model, max_by(provider, seen_at) as provider,
        lower(trim(max_by(provider_resource_id, seen_at))) as resource_key, min(seen_at) as first_seen_at
    from gpu_inventory group by cluster, gpu_uuid
),
billed as (select distinct lower(trim(resource_id)) as resource_key from billing_lines where resource_id is not null),
models as (
    select cluster, gpu_model, provider, count(*) as devices, min(first_seen_at) as first_seen_at, null::varchar[] as asked_for
    from devices where resource_key is null or resource_key not in (select resource_key from billed)
    group by cluster, gpu_model, provider
),
only_read as (
    select cluster, gpu_uuid, min(interval_start_at) as first_seen_at from gpu_samples
    where (cluster, gpu_uuid) not in (select (cluster, gpu_uuid) from devices) group by cluster, gpu_uuid
),
only_scheduled as (
    select cluster, min(started_at) as first_seen_at, list_sort(list_distinct(list(gpu_model))) as asked_for from runs
    where gpu_count > 0 and started_at is not null and cluster not in (select cluster from devices)
    group by cluster
),
unknown as (
    select coalesce(read.cluster, only_scheduled.cluster) as cluster, {unknown_model}, null, coalesce(read.devices, 0),
        least(read.first_seen_at, only_scheduled.first_seen_at), only_scheduled.asked_for
    from (
        select cluster, count(*) as devices, min(first_seen_at) as first_seen_at from only_read group by cluster
    ) as read
    full join only_scheduled using (cluster)
)
from (from models union all from unknown) order by devices desc, cluster, gpu_model, provider nulls first
"""

_CURRENCIES = """
select billing_currency from billing_lines where billing_currency is not null
union select trim(currency) from rate_cards where currency is not null
"""

_RULES = """
select cluster, namespace, name_regex from workload_rules
qualify row_number() over (
    partition by priority, cluster, namespace, name_regex, valid_from order by landed_at desc, line_number desc nulls last
) = 1 and (valid_to is null or valid_to > coalesce(valid_from, timestamp '1970-01-01'))
"""

_CARDS = """
select trim(gpu_model), nullif(trim(provider), ''), nullif(trim(cluster), '') from rate_cards
qualify row_number() over (
    partition by gpu_model, provider, cluster, currency, valid_from order by landed_at desc, line_number desc nulls last
) = 1 and (valid_to is null or valid_to > valid_from)
"""

_JOB_KINDS = ("Job", "PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "JAXJob", "PaddleJob", "TrainJob", "RayJob", "JobSet")
#: jobs of one name but for its digits are one workload to a person, whatever their owners are called
_WORKLOADS = r"""
with told as (
    select * from runs qualify row_number() over (
        partition by cluster, job_id, case when scheduler <> 'kubernetes' then started_at end
        order by observed_at desc nulls last, landed_at desc nulls last, line_number desc nulls last
    ) = 1
),
named as (
    select told.*, coalesce(nullif(namespace, ''), '-') as space, regexp_replace(name, '[0-9]+', '#', 'g') as masked_name,
        case
            when owner_kind in ({job_kinds}) then regexp_replace(nullif(owner_name, ''), '[0-9]+', '#', 'g')
            else nullif(owner_name, '')
        end as family,
        coalesce(
            nullif(owner_name, ''), nullif(json_extract_string(labels, '$."app.kubernetes.io/name"'), ''),
            nullif(masked_name, ''), 'unknown'
        ) as built_workload,
        max(observed_at) over (partition by cluster) as cluster_through_at,
        case
            when job_id in (select job_id from inference_usage where inference_usage.cluster = told.cluster) then 'inference'
            when lower(json_extract_string(labels, '$."interactive"')) in ('true', '1')
                or regexp_matches(coalesce(name, ''), '(?i)jupyter') then 'interactive'
            when owner_kind = 'CronJob' then 'batch'
            when scheduler = 'slurm' or owner_kind in ({job_kinds}) then 'training'
            else 'unknown'
        end as own_kind,
        exists (
            from rules
            where (rules.cluster is null or rules.cluster = told.cluster)
                and (rules.namespace is null or rules.namespace = coalesce(nullif(told.namespace, ''), '-'))
                and (rules.name_regex is null or try(regexp_matches(coalesce(told.name, ''), rules.name_regex)))
        ) as is_ruled
    from told
),
families as (
    select *, coalesce(family, built_workload) as line,
        not is_ruled and started_at is not null and coalesce(gpu_count, 0) > 0 as is_asked_for
    from named
)
select cluster, space as namespace,
    case when count(distinct built_workload) filter (is_asked_for) = 1
        then any_value(built_workload) filter (is_asked_for) else line end as workload,
    case
        when bool_or(own_kind = 'inference') or line in (
            select workload from inference_usage
            where inference_usage.cluster = families.cluster and coalesce(inference_usage.namespace, '-') = families.space
        ) then 'inference'
        else coalesce(mode(own_kind) filter (is_asked_for), 'unknown')
    end as kind,
    any_value(owner_name) filter (is_asked_for and owner_name <> '') as owner_name,
    count(distinct built_workload) filter (is_asked_for) as joined,
    coalesce(list_distinct(list(name) filter (is_asked_for and name <> '')), []) as names,
    coalesce(list_distinct(list(name) filter (name <> '')), []) as every_name,
    count(*) filter (is_asked_for) as runs,
    sum(
        gpu_count * coalesce(share_ratio, 1) * greatest(
            epoch(coalesce(ended_at, cluster_through_at) - started_at), 0
        )
    ) filter (is_asked_for) / 3600.0 as gpu_hours,
    max(coalesce(ended_at, cluster_through_at)) filter (is_asked_for) as last_seen_at
from families
group by cluster, space, line
order by gpu_hours desc nulls last, cluster, namespace, workload
"""
