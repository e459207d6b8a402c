with

runs as (

    select * from {{ ref('int_runs_named') }}

),

claims as (

    select * from {{ ref('int_holds_claimed') }}

),

orphans as (

    select
        run_id,
        cluster,
        job_id,
        min(started_at) as held_from_at,
        max(ended_at) as held_until_at,
        sum(gpu_count) as gpu_count

    from claims
    where is_orphan
    group by run_id, cluster, job_id

),

told as (

    select
        run_id,
        cluster,
        scheduler,
        job_id,
        workload_id,
        workload,
        namespace,
        application,
        team,
        model,
        kind,
        latency_target_p95_seconds,
        min_replicas,
        replica_capacity_per_second,
        name,
        queue,
        replica_group,
        state,
        submitted_at,
        started_at,
        ended_at,
        held_from_at,
        held_until_at,
        is_provisional,
        gpu_count,
        gpu_model,
        case
            when held_until_at > held_from_at
                then least(1.0, suspended_seconds * 1e6 / {{ microseconds_between('held_from_at', 'held_until_at') }})
            else 0.0
        end as suspended_ratio,
        observed_at,
        case
            when is_known_by_name then 'known_by_name'
            when is_superseded then 'runaway'
            when started_at is not null and gpu_count is null then 'gpu_count_unknown'
            else ''
        end as flag,
        case
            when upper(state) in ('COMPLETED', 'SUCCEEDED') then 'completed'
            when upper(state) in ('FAILED', 'NODE_FAIL', 'OUT_OF_MEMORY', 'BOOT_FAIL') then 'failed'
            when upper(state) in ('TIMEOUT', 'DEADLINE') then 'timed_out'
            when upper(state) like 'CANCELLED%' then 'cancelled'
            when upper(state) = 'PREEMPTED' then 'preempted'
            when upper(state) = 'PENDING' then 'pending'
            when ended_at is null and started_at is not null then 'running'
            else 'other'
        end as end_kind

    from runs

),

ownerless as (

    select
        run_id,
        cluster,
        'other' as scheduler,
        job_id,
        cluster || '/-/unknown' as workload_id,
        'unknown' as workload,
        '-' as namespace,
        'unknown' as application,
        'unknown' as team,
        'unknown' as model,
        'unknown' as kind,
        cast(null as double) as latency_target_p95_seconds,
        cast(null as bigint) as min_replicas,
        cast(null as double) as replica_capacity_per_second,
        job_id as name,
        'unknown' as queue,
        cast(null as varchar) as replica_group,
        'UNKNOWN' as state,
        cast(null as timestamp) as submitted_at,
        held_from_at as started_at,
        cast(null as timestamp) as ended_at,
        held_from_at,
        held_until_at,
        true as is_provisional,
        gpu_count,
        cast(null as varchar) as gpu_model,
        0.0 as suspended_ratio,
        cast(null as timestamp) as observed_at,
        'unknown_owner' as flag,
        'other' as end_kind

    from orphans

),

both_kinds as (

    select * from told
    union all
    select * from ownerless

)

select * from both_kinds
