with

runs as (

    select * from {{ ref('int_runs') }}

),

usage as (

    select * from {{ ref('int_usage_servers_owned') }}

),

-- of several runs of a workload the one told of last describes it
latest as (

    select
        workload_id,
        cluster,
        namespace,
        workload,
        application,
        team,
        model,
        kind,
        latency_target_p95_seconds,
        row_number() over (
            partition by workload_id
            order by coalesce(started_at, submitted_at) desc nulls last, run_id desc nulls last
        ) as told_rank

    from runs
    where workload_id <> 'unknown'

),

described as (

    select
        workload_id,
        cluster,
        namespace,
        workload,
        application,
        team,
        model,
        kind,
        latency_target_p95_seconds

    from latest
    where told_rank = 1

),

-- services that only their usage knows
served as (

    select distinct
        usage.workload_id,
        usage.cluster,
        coalesce(usage.namespace, '-') as namespace,
        coalesce(usage.workload, usage.server) as workload,
        'unknown' as application,
        'unknown' as team,
        'unknown' as model,
        'inference' as kind,
        cast(null as double) as latency_target_p95_seconds

    from usage
    left join described on usage.workload_id = described.workload_id
    where described.workload_id is null and usage.workload_id not in ('unknown', 'unallocated')

),

nobody as (

    select
        member as workload_id,
        member as cluster,
        '-' as namespace,
        member as workload,
        member as application,
        member as team,
        'unknown' as model,
        'unknown' as kind,
        cast(null as double) as latency_target_p95_seconds

    from (
        select 'unallocated' as member
        union all
        select 'unknown' as member
    ) as members

),

members as (

    select * from described
    union all
    select * from served
    union all
    select * from nobody

)

select * from members
