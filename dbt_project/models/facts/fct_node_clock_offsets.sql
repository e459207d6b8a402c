-- How far a node's clock was from the scheduler's, by UTC day (case C14): a run that began at 10:00 and ended at 10:30, and
-- whose device worked from 10:05:57 to 10:35:57, was seen by a clock that is 357 s ahead. A late start alone says nothing,
-- since a run may take its time; only a start and an end that are off by the same, and no run that says otherwise, do.
-- Edges are those of runs that held a whole device alone, with nobody else on it half an hour before and after, and those
-- of processes that name their run. An edge is known to within an interval, so that an offset is believed only where none
-- is impossible.

{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

{% set alone = 'interval ' ~ (2 * var('clock_skew_most_minutes')) ~ ' minute' %}
{% set near = 'interval ' ~ var('clock_skew_most_minutes') ~ ' minute' %}

with

claims as (

    select * from {{ ref('int_holds_claimed') }}

),

runs as (

    select * from {{ ref('int_runs_named') }}
    where started_at is not null and ended_at is not null and not is_known_by_name

),

processes as (

    select * from {{ ref('stg_landing__gpu_processes') }}
    where {{ in_touched_days('cast(seen_at as date)') }}

),

device_holds as (

    select
        claims.cluster,
        claims.node,
        claims.gpu_uuid,
        claims.run_id,
        min(claims.started_at) as started_at,
        max(claims.ended_at) as ended_at,
        bool_or(claims.slot_uuid is not null or claims.share_ratio is not null) as is_shared

    from claims
    where claims.gpu_uuid is not null
    group by claims.cluster, claims.node, claims.gpu_uuid, claims.run_id

),

holds_followed as (

    select
        device_holds.*,
        max(ended_at) over (
            partition by cluster, gpu_uuid
            order by started_at nulls last, run_id nulls last
            rows between unbounded preceding and 1 preceding
        ) as ended_before_at,
        lead(started_at) over (
            partition by cluster, gpu_uuid order by started_at nulls last, run_id nulls last
        ) as next_started_at

    from device_holds

),

-- all of a run, in one day with room for the clock's error, on a device that nobody else could have used
holds_alone as (

    select
        cast(runs.started_at as date) as usage_date,
        holds_followed.cluster,
        holds_followed.node,
        holds_followed.gpu_uuid,
        holds_followed.run_id,
        runs.started_at,
        runs.ended_at

    from holds_followed
    inner join runs on holds_followed.run_id = runs.run_id
    left join claims as pool_claims
        on
            holds_followed.cluster = pool_claims.cluster
            and holds_followed.node = pool_claims.node
            and pool_claims.gpu_uuid is null
            and pool_claims.started_at < holds_followed.ended_at + {{ alone }}
            and pool_claims.ended_at > holds_followed.started_at - {{ alone }}
    where
        pool_claims.run_id is null
        and not holds_followed.is_shared
        and holds_followed.started_at = runs.started_at
        and holds_followed.ended_at = runs.ended_at
        and coalesce(holds_followed.ended_before_at <= runs.started_at - {{ alone }}, true)
        and coalesce(holds_followed.next_started_at >= runs.ended_at + {{ alone }}, true)
        and cast(runs.started_at - {{ alone }} as date) = cast(runs.ended_at + {{ alone }} as date)
        and {{ in_touched_days('cast(runs.started_at as date)') }}

),

-- the devices of a node have one clock: two of them are enough, and the minutes of the others need not be looked at
devices_ranked as (

    select
        holds_alone.*,
        dense_rank() over (partition by usage_date, cluster, node order by gpu_uuid nulls last) as device_rank

    from holds_alone

),

devices_looked_at as (

    select * exclude (device_rank)
    from devices_ranked
    where device_rank <= 2

),

-- the active minutes near the edges; how much of the first and the last was active says where in them the edge is
edge_minutes as (

    select
        devices_looked_at.*,
        series.source,
        minutes.bucket_start_at,
        minutes.bucket_end_at,
        minutes.covered_us - minutes.idle_us as active_us,
        greatest(
            {{ microseconds_between('minutes.first_start_at', 'minutes.last_end_at') }} / greatest(minutes.reading_count, 1),
            coalesce({{ microseconds_between('minutes.first_start_at', 'minutes.first_reading_until_at') }}, 0)
        ) as interval_us

    from {{ ref('int_gpu_minutes_rolled_up') }} as minutes
    inner join {{ ref('int_sample_series') }} as series on minutes.series_number = series.series_number
    inner join devices_looked_at
        on
            series.gpu_uuid = devices_looked_at.gpu_uuid
            and minutes.bucket_start_at >= devices_looked_at.started_at - {{ near }}
            and minutes.bucket_start_at < devices_looked_at.ended_at + {{ near }}
            and (
                minutes.bucket_start_at < devices_looked_at.started_at + {{ near }}
                or minutes.bucket_start_at >= devices_looked_at.ended_at - {{ near }}
            )
    where
        minutes.covered_us > minutes.idle_us
        and series.cluster = devices_looked_at.cluster
        and series.node = devices_looked_at.node
        and series.slot_uuid is null
        and minutes.usage_date = devices_looked_at.usage_date
        and {{ in_touched_days('minutes.usage_date') }}

),

activity_edges as (

    select
        usage_date,
        cluster,
        node,
        source,
        'activity' as evidence,
        run_id,
        {{ microseconds_between(
            'max(started_at)', plus_microseconds('min_by(bucket_end_at, bucket_start_at)', '-min_by(active_us, bucket_start_at)')
        ) }} as start_off_us,
        {{ microseconds_between(
            'max(ended_at)', plus_microseconds('max(bucket_start_at)', 'max_by(active_us, bucket_start_at)')
        ) }} as end_off_us,
        cast(max(interval_us) as bigint) as interval_us

    from edge_minutes
    group by usage_date, cluster, node, source, gpu_uuid, run_id

),

process_edges as (

    select
        cast(runs.started_at as date) as usage_date,
        processes.cluster,
        processes.node,
        'processes' as source,
        'processes' as evidence,
        runs.run_id,
        {{ microseconds_between('max(runs.started_at)', 'min(processes.seen_at)') }} as start_off_us,
        {{ microseconds_between('max(runs.ended_at)', 'max(processes.seen_at)') }} as end_off_us,
        cast(
            {{ microseconds_between('min(processes.seen_at)', 'max(processes.seen_at)') }}
            / greatest(count(distinct processes.seen_at) - 1, 1) as bigint
        ) as interval_us

    from processes
    inner join runs
        on
            processes.cluster = runs.cluster
            and coalesce(processes.job_id, processes.pod_uid) = runs.job_id
            and processes.seen_at >= runs.started_at - {{ near }}
            and processes.seen_at < runs.ended_at + {{ near }}
    where
        cast(runs.started_at - {{ alone }} as date) = cast(runs.ended_at + {{ alone }} as date)
        and cast(processes.seen_at as date) = cast(runs.started_at as date)
    group by cast(runs.started_at as date), processes.cluster, processes.node, runs.run_id
    having count(distinct processes.seen_at) > 1

),

edges as (

    select * from activity_edges
    union all
    select * from process_edges

),

-- the clock cannot be further ahead than a run's first sign is late, nor less than its last sign is after its end
run_days as (

    select
        edges.*,
        start_off_us + interval_us as most_us,
        end_off_us - interval_us as least_us,
        abs(start_off_us - end_off_us) <= interval_us as is_shifted,
        (start_off_us + end_off_us) / 2 as offset_us

    from edges

),

summed as (

    select
        usage_date,
        cluster,
        node,
        source,
        evidence,
        count(*) as edge_count,
        count(case when is_shifted then 1 end) as agreeing_count,
        avg(case when is_shifted then offset_us end) as offset_us,
        coalesce(max(case when is_shifted then offset_us end) - min(case when is_shifted then offset_us end), 0) as spread_us,
        max(interval_us) as interval_us,
        max(least_us) as least_us,
        min(most_us) as most_us

    from run_days
    group by usage_date, cluster, node, source, evidence

),

judged as (

    select
        summed.*,
        offset_us is not null
        and spread_us <= interval_us
        and offset_us between least_us and most_us
        and (
            least_us > {{ var('clock_skew_tolerated_seconds') }} * 1000000
            or most_us < -{{ var('clock_skew_tolerated_seconds') }} * 1000000
        ) as is_skewed

    from summed

),

-- a whole number of minutes leaves less than is tolerated; processes have no source of samples to correct
final as (

    select
        usage_date,
        cluster,
        node,
        source,
        evidence,
        edge_count,
        agreeing_count,
        cast(offset_us as double) / 1e6 as offset_seconds,
        cast(least_us as double) / 1e6 as least_seconds,
        cast(most_us as double) / 1e6 as most_seconds,
        is_skewed,
        cast(
            case when is_skewed and evidence = 'activity' then round(offset_us / 6e7) else 0 end as bigint
        ) as corrected_minutes

    from judged

)

select * from final
