-- How long each run that asks for GPUs waited for them: from when it could have begun (eligible; else submitted) to its
-- start, else to its end, else to where its cluster is known to. A requeued attempt waits no earlier than the end of the
-- attempt before it.

{% set placeholder_namespaces = "'" ~ var('placeholder_namespaces') | join("', '") ~ "'" %}

with

runs as (

    select
        runs.*,
        coalesce(nullif(requested_gpu_count, 0), gpu_count, 0) * coalesce(share_ratio, 1.0) as wanted_gpu_count

    from {{ ref('int_runs_named') }} as runs
    where
        submitted_at is not null
        and not is_known_by_name
        and namespace not in ({{ placeholder_namespaces }})

),

data_through as (

    select
        cluster,
        max(case when table_group = 'scheduler' then data_through_at end) as scheduler_through_at

    from {{ source('control', 'data_through') }}
    group by cluster

),

build_window as (

    select * from {{ source('control', 'build_window') }}

),

followed as (

    select
        runs.*,
        lag(ended_at) over (
            partition by cluster, job_id order by started_at nulls last, run_id nulls last
        ) as previous_ended_at

    from runs
    where wanted_gpu_count > 0

),

bounded as (

    select
        followed.run_id,
        followed.cluster,
        followed.job_id,
        followed.queue,
        followed.wanted_gpu_count as gpu_count,
        followed.started_at as run_started_at,
        -- greatest is null or not by engine where one of its arguments is
        greatest(
            followed.submitted_at,
            coalesce(followed.eligible_at, followed.submitted_at),
            coalesce(followed.previous_ended_at, followed.submitted_at)
        ) as started_at,
        least(
            coalesce(followed.started_at, followed.ended_at, data_through.scheduler_through_at),
            coalesce(build_window.end_at, timestamp '9999-01-01')
        ) as ended_at

    from followed
    inner join data_through on followed.cluster = data_through.cluster
    cross join build_window

)

-- a run that began the moment it could have is no wait of nothing: it began after 0 seconds
select * from bounded
where started_at < ended_at or (run_started_at is not null and ended_at = run_started_at)
