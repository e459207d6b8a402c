-- Which replicas of an inference service held in which minutes (rule 6): a replica is a run, or a group of runs that
-- serve together. It holds in every minute of which it held a part. Each hour is cut, at whole minutes, wherever a
-- replica comes or goes, so that all the minutes of a stretch have the same replicas.

with

spans as (

    select * from {{ ref('int_held_spans') }}
    where kind = 'inference' and {{ in_replaced_days('usage_date') }}

),

runs as (

    select * from {{ ref('int_runs') }}

),

span_minutes as (

    select distinct
        spans.usage_date,
        spans.workload_id,
        spans.run_id,
        spans.run_number,
        coalesce(nullif(runs.replica_group, ''), spans.run_id) as replica_name,
        date_trunc('minute', spans.started_at) as started_at,
        date_trunc('minute', spans.ended_at - interval 1 microsecond) + interval 1 minute as ended_at

    from spans
    inner join runs on spans.run_id = runs.run_id

),

span_hours as (

    select
        span_minutes.*,
        {{ each_touched('hour', 'started_at', 'ended_at') }} as hour_start_at

    from span_minutes

),

held as (

    select
        usage_date,
        hour_start_at,
        workload_id,
        run_id,
        run_number,
        replica_name,
        greatest(started_at, hour_start_at) as started_at,
        least(ended_at, hour_start_at + interval 1 hour) as ended_at

    from span_hours

),

cuts as (

    select hour_start_at, workload_id, started_at as cut_at
    from held
    union
    select hour_start_at, workload_id, ended_at
    from held

),

stretches as (

    select
        hour_start_at,
        workload_id,
        cut_at as started_at,
        lead(cut_at) over (partition by hour_start_at, workload_id order by cut_at nulls last) as ended_at

    from cuts

),

replicas as (

    select
        held.usage_date,
        held.hour_start_at,
        held.workload_id,
        held.replica_name,
        stretches.started_at,
        stretches.ended_at,
        min(held.run_id) as first_run_id

    from stretches
    inner join held
        on
            stretches.hour_start_at = held.hour_start_at
            and stretches.workload_id = held.workload_id
            and stretches.started_at >= held.started_at
            and stretches.ended_at <= held.ended_at
    group by
        held.usage_date, held.hour_start_at, held.workload_id, held.replica_name, stretches.started_at, stretches.ended_at

),

counted as (

    select
        replicas.*,
        count(*) over (partition by workload_id, started_at) as replica_count

    from replicas

)

select * from counted
