with

runs as (

    select * from {{ ref('int_runs') }}

),

compared as (

    select
        run_id as change_key,
        held_from_at as started_at,
        held_until_at as ended_at,
        md5(concat_ws(
            '|',
            workload_id,
            kind,
            application,
            team,
            model,
            coalesce(cast(gpu_count as varchar), ''),
            cast(round(suspended_ratio, 9) as varchar),
            coalesce(replica_group, ''),
            coalesce(cast(latency_target_p95_seconds as varchar), ''),
            coalesce(cast(min_replicas as varchar), ''),
            coalesce(cast(replica_capacity_per_second as varchar), ''),
            case when end_kind in ('failed', 'timed_out', 'cancelled', 'preempted') then end_kind else '' end
        )) as fingerprint

    from runs
    where held_from_at is not null

)

select * from compared
