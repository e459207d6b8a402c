-- A run without an end is clipped where its cluster is known to, never at now(): building again from the same landings
-- gives the same rows (semantics 1). The window of a build cuts the facts of its days, not the runs: int_slot_holds. A
-- job runs one attempt at a time: one that was never closed ended at the latest where the next attempt of its job began, on
-- whatever node.

with

runs as (

    select * from {{ ref('stg_landing__runs') }}

),

run_gpus as (

    select * from {{ ref('int_run_gpus_resolved') }}
    where is_name_only

),

data_through as (

    select * from {{ source('control', 'data_through') }}

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

    select
        last_told.*,
        case
            when scheduler <> 'kubernetes' and started_at is not null
                then lead(started_at) over (partition by cluster, job_id order by started_at nulls last)
        end as next_attempt_at

    from last_told
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
        case
            when
                telemetry_through_at <= scheduler_through_at
                and telemetry_through_at >= scheduler_through_at - interval {{ var('telemetry_wait_hours') }} hour
                then telemetry_through_at
            else coalesce(scheduler_through_at, telemetry_through_at)
        end as clip_at

    from cluster_ends

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
        lower(current_attempts.mig_profile) as mig_profile,
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
                coalesce(
                    current_attempts.ended_at,
                    least(clips.clip_at, coalesce(current_attempts.next_attempt_at, clips.clip_at))
                )
            )
        end as held_until_at,
        current_attempts.started_at is not null
        and current_attempts.ended_at is null
        and current_attempts.next_attempt_at is null as is_provisional,
        coalesce(current_attempts.ended_at is null and current_attempts.next_attempt_at is not null, false) as is_superseded,
        false as is_known_by_name

    from current_attempts
    left join clips on current_attempts.cluster = clips.cluster

),

named_holds as (

    select
        run_gpus.cluster,
        run_gpus.job_id,
        run_gpus.node,
        run_gpus.gpu_uuid,
        run_gpus.slot_uuid,
        run_gpus.started_at,
        least(coalesce(run_gpus.told_ended_at, run_gpus.shown_until_at), run_gpus.shown_until_at) as ended_at,
        coalesce(cluster_ends.telemetry_through_at, cluster_ends.scheduler_through_at) as known_until_at

    from run_gpus
    left join cluster_ends on run_gpus.cluster = cluster_ends.cluster

),

known_by_name as (

    select
        cluster || '/' || job_id as run_id,
        cluster,
        'kubernetes' as scheduler,
        job_id,
        {{ captured_text('job_id', "'/(.*)$'") }} as name,
        coalesce({{ captured_text('job_id', "'^([^/]+)/'") }}, '-') as namespace,
        cast(null as varchar) as user,
        'unknown' as queue,
        cast(null as varchar) as qos,
        'UNKNOWN' as state,
        cast(null as varchar) as exit_code,
        cast(null as timestamp) as submitted_at,
        cast(null as timestamp) as eligible_at,
        min(started_at) as started_at,
        case when max(ended_at) < max(known_until_at) then max(ended_at) end as ended_at,
        cast(null as bigint) as time_limit_seconds,
        cast(0 as double) as suspended_seconds,
        cast(null as double) as requested_gpu_count,
        cast(count(distinct concat_ws('|', gpu_uuid, slot_uuid)) as double) as gpu_count,
        cast(null as varchar) as gpu_model,
        cast(null as varchar) as mig_profile,
        cast(null as double) as share_ratio,
        cast(null as double) as cpu_count,
        cast(null as bigint) as memory_bytes,
        {{ joined_text('distinct node', 'node') }} as node_list,
        cast(null as varchar) as owner_kind,
        {{ digits_masked(pod_owner_name(captured_text('job_id', "'/(.*)$'"))) }} as owner_name,
        cast(null as varchar) as replica_group,
        cast(null as varchar) as labels,
        max(started_at) as observed_at,
        min(started_at) as held_from_at,
        max(ended_at) as held_until_at,
        coalesce(max(ended_at) >= max(known_until_at), true) as is_provisional,
        false as is_superseded,
        true as is_known_by_name

    from named_holds
    where started_at < ended_at
    group by cluster, job_id

),

told_or_shown as (

    select * from clipped
    union all
    select * from known_by_name

)

select * from told_or_shown
