-- A run without an end is clipped where its cluster is known to, never at now(): building the same window again
-- later from the same landings gives the same rows (semantics 1).

with

runs as (

    select * from {{ ref('stg_landing__runs') }}

),

data_through as (

    select * from {{ source('control', 'data_through') }}

),

build_window as (

    select * from {{ source('control', 'build_window') }}

),

-- an attempt of a job is told apart by its start; a pod by its uid alone, since it starts once
attempts as (

    select
        runs.*,
        case
            when scheduler = 'kubernetes' then cluster || '/' || job_id
            when started_at is null then cluster || '/' || job_id || '@pending'
            else cluster || '/' || job_id || '@' || {{ instant_as_text('started_at') }}
        end as run_id

    from runs

),

last_told as (

    select
        attempts.*,
        row_number() over (
            partition by run_id
            order by observed_at desc nulls last, landed_at desc nulls last, line_number desc nulls last
        ) as told_rank,
        max(case when started_at is not null then observed_at end) over (partition by cluster, job_id) as started_observed_at

    from attempts

),

-- a job that waited and then began is one run: the row that told of its waiting is no run of its own
current_attempts as (

    select * from last_told
    where
        told_rank = 1
        and (started_at is not null or started_observed_at is null or observed_at > started_observed_at)

),

cluster_ends as (

    select
        cluster,
        max(case when table_group = 'scheduler' then data_through_at end) as scheduler_through_at,
        max(case when table_group = 'telemetry' then data_through_at end) as telemetry_through_at

    from data_through
    group by cluster

),

clips as (

    select
        cluster_ends.cluster,
        least(
            case
                when
                    telemetry_through_at <= scheduler_through_at
                    and telemetry_through_at >= scheduler_through_at - interval {{ var('telemetry_wait_hours') }} hour
                    then telemetry_through_at
                else coalesce(scheduler_through_at, telemetry_through_at)
            end,
            coalesce(build_window.end_at, timestamp '9999-01-01')
        ) as clip_at,
        coalesce(build_window.end_at, timestamp '9999-01-01') as build_end_at

    from cluster_ends
    cross join build_window

),

clipped as (

    select
        current_attempts.run_id,
        current_attempts.cluster,
        current_attempts.scheduler,
        current_attempts.job_id,
        current_attempts.name,
        coalesce(nullif(current_attempts.namespace, ''), '-') as namespace,
        current_attempts.user,
        coalesce(current_attempts.queue, 'unknown') as queue,
        current_attempts.qos,
        current_attempts.state,
        current_attempts.exit_code,
        current_attempts.submitted_at,
        current_attempts.eligible_at,
        current_attempts.started_at,
        current_attempts.ended_at,
        current_attempts.time_limit_seconds,
        coalesce(current_attempts.suspended_seconds, 0) as suspended_seconds,
        current_attempts.requested_gpu_count,
        current_attempts.gpu_count,
        current_attempts.gpu_model,
        current_attempts.share_ratio,
        current_attempts.cpu_count,
        current_attempts.memory_bytes,
        current_attempts.node_list,
        current_attempts.owner_kind,
        current_attempts.owner_name,
        current_attempts.replica_group,
        current_attempts.labels,
        current_attempts.observed_at,
        current_attempts.started_at as held_from_at,
        case
            when current_attempts.started_at is null then null
            else greatest(
                current_attempts.started_at,
                least(coalesce(current_attempts.ended_at, clips.clip_at), clips.build_end_at)
            )
        end as held_until_at,
        current_attempts.started_at is not null and current_attempts.ended_at is null as is_provisional

    from current_attempts
    left join clips on current_attempts.cluster = clips.cluster

)

select * from clipped
