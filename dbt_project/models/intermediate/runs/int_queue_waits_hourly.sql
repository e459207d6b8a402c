-- What waited in each queue, hour by hour: GPUs asked for and not given, and how long the runs that began had waited.

with

queue_nodes as (

    select * from {{ ref('int_queue_nodes') }}

),

waits as (

    select * from {{ ref('int_run_waits') }}

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

waits_in_days as (

    select
        waits.*,
        {{ each_touched('day', 'waits.started_at', 'waits.ended_at') }} as day_start_at

    from waits
    where waits.started_at < waits.ended_at

),

waits_touching as (

    select
        run_id,
        cluster,
        queue,
        gpu_count,
        started_at,
        ended_at,
        {{ each_touched(
            'hour', 'greatest(started_at, day_start_at)', 'least(ended_at, day_start_at + interval 1 day)'
        ) }} as hour_start_at

    from waits_in_days
    where {{ in_replaced_days('cast(day_start_at as date)') }}

),

waits_in_hours as (

    select
        run_id,
        cluster,
        queue,
        gpu_count,
        hour_start_at,
        greatest(started_at, hour_start_at) as started_at,
        least(ended_at, hour_start_at + interval 1 hour) as ended_at

    from waits_touching

),

waited as (

    select
        cluster,
        queue,
        hour_start_at,
        count(distinct run_id) as waiting_run_count,
        sum(gpu_count * {{ microseconds_between('started_at', 'ended_at') }}) as waiting_us

    from waits_in_hours
    group by cluster, queue, hour_start_at

),

-- one that stops waiting at the instant in which another begins to does not add up with it
changes as (

    select
        cluster,
        queue,
        hour_start_at,
        changed_at,
        sum(gpu_count) as gpu_count

    from (
        select cluster, queue, hour_start_at, started_at as changed_at, gpu_count from waits_in_hours
        union all
        select cluster, queue, hour_start_at, ended_at as changed_at, -gpu_count as gpu_count from waits_in_hours
    ) as both_ends
    group by cluster, queue, hour_start_at, changed_at

),

levels as (

    select
        cluster,
        queue,
        hour_start_at,
        sum(gpu_count) over (
            partition by cluster, queue, hour_start_at
            order by changed_at nulls last
            rows between unbounded preceding and current row
        ) as gpu_count

    from changes

),

peaks as (

    select
        cluster,
        queue,
        hour_start_at,
        round(max(gpu_count), 6) as waiting_gpu_count_max

    from levels
    group by cluster, queue, hour_start_at

),

begun as (

    select
        cluster,
        queue,
        date_trunc('hour', run_started_at) as hour_start_at,
        greatest(0.0, {{ microseconds_between('started_at', 'run_started_at') }} / 1e6) as wait_seconds

    from waits
    where run_started_at is not null and {{ in_replaced_days('cast(run_started_at as date)') }}

),

begun_summed as (

    select
        cluster,
        queue,
        hour_start_at,
        count(*) as started_run_count,
        percentile_cont(0.5) within group (order by wait_seconds nulls last) as wait_p50_seconds,
        percentile_cont(0.95) within group (order by wait_seconds nulls last) as wait_p95_seconds

    from begun
    group by cluster, queue, hour_start_at

),

queue_days as (

    select
        cluster,
        queue,
        usage_date

    from queue_nodes
    where {{ in_replaced_days('usage_date') }}

    union

    select
        cluster,
        queue,
        cast(hour_start_at as date) as usage_date

    from waits_in_hours

    union

    select
        cluster,
        queue,
        cast(hour_start_at as date) as usage_date

    from begun

),

queue_hours as (

    select
        queue_days.*,
        {{ each_touched(
            'hour', 'cast(usage_date as timestamp)', 'cast(usage_date + 1 as timestamp)'
        ) }} as hour_start_at

    from queue_days

),

-- the last hour counts as far as the scheduler is known
known as (

    select
        queue_hours.usage_date,
        queue_hours.hour_start_at,
        queue_hours.cluster,
        queue_hours.queue,
        {{ microseconds_between(
            'queue_hours.hour_start_at',
            "least(
                queue_hours.hour_start_at + interval 1 hour,
                data_through.scheduler_through_at,
                coalesce(build_window.end_at, timestamp '9999-01-01')
            )"
        ) }} as known_us

    from queue_hours
    inner join data_through on queue_hours.cluster = data_through.cluster
    cross join build_window
    where data_through.scheduler_through_at is not null

),

joined as (

    select
        known.usage_date,
        known.hour_start_at,
        known.cluster,
        known.queue,
        known.known_us,
        coalesce(waited.waiting_run_count, 0) as waiting_run_count,
        coalesce(waited.waiting_us, 0.0) as waiting_us,
        coalesce(peaks.waiting_gpu_count_max, 0.0) as waiting_gpu_count_max,
        coalesce(begun_summed.started_run_count, 0) as started_run_count,
        begun_summed.wait_p50_seconds,
        begun_summed.wait_p95_seconds

    from known
    left join waited
        on
            known.cluster = waited.cluster
            and known.queue = waited.queue
            and known.hour_start_at = waited.hour_start_at
    left join peaks
        on
            known.cluster = peaks.cluster
            and known.queue = peaks.queue
            and known.hour_start_at = peaks.hour_start_at
    left join begun_summed
        on
            known.cluster = begun_summed.cluster
            and known.queue = begun_summed.queue
            and known.hour_start_at = begun_summed.hour_start_at
    where known.known_us > 0 or begun_summed.started_run_count > 0

)

select * from joined
