-- What the tables take from runs and nodes beyond what a run holds, as intervals: the CPUs and memory taken of nodes, the
-- usual job of a partition, the size of nodes, waiting, and how far a training run's work is known to be worth its time: of
-- a run that ends days later, or writes its next checkpoint then, the days between are built again.

with

loads as (

    select * from {{ ref('int_node_loads') }}

),

sizes as (

    select * from {{ ref('int_node_sizes') }}

),

waits as (

    select * from {{ ref('int_run_waits') }}

),

goodput as (

    select * from {{ ref('int_runs_goodput') }}

),

runs as (

    select * from {{ ref('int_runs_named') }}
    where held_from_at < held_until_at

),

data_through as (

    select
        cluster,
        max(data_through_at) as data_through_at

    from {{ source('control', 'data_through') }}
    group by cluster

),

first_runs as (

    select
        cluster,
        min(held_from_at) as held_from_at

    from runs
    group by cluster

),

changes as (

    select
        concat_ws('|', 'load', run_id, node) as change_key,
        started_at,
        ended_at,
        md5(concat_ws(
            '|', coalesce(cast(cpu_count as varchar), ''), coalesce(cast(memory_bytes as varchar), '')
        )) as fingerprint

    from loads

    union all

    select
        'usual|' || run_id as change_key,
        held_from_at as started_at,
        held_until_at as ended_at,
        md5(concat_ws(
            '|',
            queue,
            coalesce(cast(cpu_count as varchar), ''),
            coalesce(cast(memory_bytes as varchar), ''),
            cast(gpu_count as varchar)
        )) as fingerprint

    from runs
    where gpu_count > 0

    union all

    -- a node's first sighting speaks for the days before it, as far back as its cluster's runs reach
    select
        concat_ws('|', 'node', sizes.cluster, sizes.node, cast(sizes.valid_from_date as varchar)) as change_key,
        greatest(
            cast(sizes.valid_from_date as timestamp), coalesce(first_runs.held_from_at, data_through.data_through_at)
        ) as started_at,
        least(cast(sizes.valid_until_date as timestamp), data_through.data_through_at) as ended_at,
        md5(sizes.fingerprint) as fingerprint

    from sizes
    inner join data_through on sizes.cluster = data_through.cluster
    left join first_runs on sizes.cluster = first_runs.cluster

    union all

    -- a job that waits and the attempt it becomes are one wait
    select
        concat_ws('|', 'wait', cluster, job_id, cast(started_at as varchar)) as change_key,
        started_at,
        max(ended_at) as ended_at,
        md5(concat_ws('|', max(queue), cast(max(gpu_count) as varchar))) as fingerprint

    from waits
    where started_at < ended_at
    group by cluster, job_id, started_at

    union all

    -- that a run began counts in its hour, however short it waited
    select
        'start|' || run_id as change_key,
        run_started_at as started_at,
        run_started_at + interval 1 second as ended_at,
        md5(concat_ws('|', queue, cast(started_at as varchar))) as fingerprint

    from waits
    where run_started_at is not null

    union all

    select
        'goodput|' || run_id as change_key,
        held_from_at as started_at,
        good_until_at as ended_at,
        '' as fingerprint

    from goodput

)

select * from changes
where started_at < ended_at
