-- The one place that touches samples. Samples on an even grid are added up as they are and multiplied by the interval; of
-- the others, repeats are dropped (the one landed last stands), each is cut at the next one's start, and split at minutes
-- and at the instants where its node's state changes or its device is lost and found, so that time out of service never
-- mixes with time in service.

-- (The samples are no common table expression: used twice, it would be written down in full before either use.)

{{ config(materialized='incremental', incremental_strategy='replace_days', meta={'days': 'rolled_up'}) }}

with

names as (

    select * from {{ ref('int_sample_series') }}

),

series as (

    select
        names.series_number,
        days.*

    from {{ ref('int_sample_series_days') }} as days
    inner join names
        on
            days.cluster = names.cluster
            and days.node = names.node
            and days.gpu_uuid = names.gpu_uuid
            and days.slot_uuid is not distinct from names.slot_uuid
            and days.source = names.source

),

-- those of these days: the numbers of all time would have more buckets to look through
series_names as (

    select distinct
        series_number,
        cluster,
        node,
        gpu_uuid

    from series

),

node_states as (

    select * from {{ ref('int_node_states_resolved') }}
    where state in ('down', 'maintenance', 'drained')

),

loss_events as (

    select * from {{ ref('int_gpu_loss_events') }}

),

even_readings as (

    select
        series.series_number,
        series.interval_us,
        date_trunc('minute', samples.interval_start_at) as bucket_start_at,
        samples.interval_start_at,
        {{ sample_readings('samples') }}

    from {{ ref('stg_landing__gpu_samples') }} as samples
    inner join series
        on
            samples.cluster = series.cluster
            and samples.gpu_uuid = series.gpu_uuid
            and samples.node = series.node
            and samples.source = series.source
            and samples.slot_uuid is not distinct from series.slot_uuid
            and samples.dt = series.sample_date
    where not series.needs_cutting and {{ in_partitions('rolled_up', day='samples.dt') }}

),

to_be_cut as (

    select
        series.series_number,
        samples.interval_start_at,
        {{ plus_microseconds('samples.interval_start_at', 'samples.interval_ms * 1000') }} as interval_end_at,
        {{ sample_readings('samples') }},
        row_number() over (
            partition by series.series_number, samples.interval_start_at
            order by samples.landed_at desc nulls last, samples.line_number desc nulls last
        ) as landing_rank,
        count(*) over (partition by series.series_number, samples.interval_start_at) - 1 as repeat_count

    from {{ ref('stg_landing__gpu_samples') }} as samples
    inner join series
        on
            samples.cluster = series.cluster
            and samples.gpu_uuid = series.gpu_uuid
            and samples.node = series.node
            and samples.source = series.source
            and samples.slot_uuid is not distinct from series.slot_uuid
            and samples.dt = series.sample_date
    where series.needs_cutting and {{ in_partitions('rolled_up', day='samples.dt') }}

),

cut_at_the_next as (

    select
        * exclude (interval_end_at, landing_rank),
        least(
            interval_end_at,
            coalesce(
                lead(interval_start_at) over (partition by series_number order by interval_start_at nulls last),
                interval_end_at
            )
        ) as interval_end_at

    from to_be_cut
    where landing_rank = 1

),

in_minutes as (

    select
        cut_at_the_next.*,
        {{ each_touched('minute', 'interval_start_at', 'interval_end_at') }} as minute_start_at

    from cut_at_the_next
    where interval_start_at < interval_end_at

),

service_changes as (

    select
        series_names.series_number,
        node_states.started_at as changed_at

    from series_names
    inner join node_states on series_names.cluster = node_states.cluster and series_names.node = node_states.node

    union

    select
        series_names.series_number,
        node_states.ended_at as changed_at

    from series_names
    inner join node_states on series_names.cluster = node_states.cluster and series_names.node = node_states.node

    union

    -- a drained node serves a device's last holder and nobody else: service ends where the holder does
    select
        series_names.series_number,
        claims.changed_at

    from series_names
    inner join node_states
        on
            series_names.cluster = node_states.cluster
            and series_names.node = node_states.node
            and node_states.state = 'drained'
    inner join (
        select cluster, node, started_at as changed_at
        from {{ ref('int_holds_claimed') }}
        union
        select cluster, node, ended_at as changed_at
        from {{ ref('int_holds_claimed') }}
    ) as claims
        on
            series_names.cluster = claims.cluster
            and series_names.node = claims.node
            and claims.changed_at > node_states.started_at
            and claims.changed_at < node_states.ended_at

    union

    select
        series_names.series_number,
        loss_events.told_at as changed_at

    from series_names
    inner join loss_events on series_names.cluster = loss_events.cluster and series_names.gpu_uuid = loss_events.gpu_id

),

-- a minute in which service changes is several buckets
buckets as (

    select
        series_number,
        minute_start_at,
        bucket_start_at,
        coalesce(
            lead(bucket_start_at) over (
                partition by series_number, minute_start_at order by bucket_start_at nulls last
            ),
            minute_start_at + interval 1 minute
        ) as bucket_end_at

    from (
        select series_number, date_trunc('minute', changed_at) as minute_start_at, changed_at as bucket_start_at
        from service_changes
        union
        select series_number, date_trunc('minute', changed_at), date_trunc('minute', changed_at)
        from service_changes
    ) as bucket_starts

),

in_buckets as (

    select
        in_minutes.*,
        coalesce(buckets.bucket_start_at, in_minutes.minute_start_at) as bucket_start_at,
        coalesce(buckets.bucket_end_at, in_minutes.minute_start_at + interval 1 minute) as bucket_end_at

    from in_minutes
    left join buckets
        on
            in_minutes.series_number = buckets.series_number
            and in_minutes.minute_start_at = buckets.minute_start_at
            and in_minutes.interval_start_at < buckets.bucket_end_at
            and in_minutes.interval_end_at > buckets.bucket_start_at

),

cut_readings as (

    select
        series_number,
        bucket_start_at,
        bucket_end_at,
        greatest(interval_start_at, bucket_start_at) as interval_start_at,
        least(interval_end_at, bucket_end_at) as interval_end_at,
        {{ microseconds_between('greatest(interval_start_at, bucket_start_at)', 'least(interval_end_at, bucket_end_at)') }} as us,
        interval_start_at as reading_from_at,
        interval_end_at as reading_until_at,
        interval_start_at >= bucket_start_at as is_start,
        repeat_count,
        activity,
        signal,
        throttled_ratio,
        memory_used_bytes,
        memory_total_bytes,
        joules_per_us,
        is_metered,
        power_watts,
        temperature_celsius,
        tensor_ratio,
        dram_ratio,
        sm_clock_mhz,
        missing

    from in_buckets

),

even_sums as (

    select
        series_number,
        interval_us,
        bucket_start_at,
        {{ even_sample_sums() }}

    from even_readings
    group by series_number, interval_us, bucket_start_at

),

summed as (

    select
        series_number,
        bucket_start_at,
        bucket_start_at + interval 1 minute as bucket_end_at,
        {{ even_sample_products() }},
        cast(null as timestamp) as first_reading_until_at,
        cast(null as timestamp) as last_reading_from_at

    from even_sums

    union all

    select
        series_number,
        bucket_start_at,
        bucket_end_at,
        {{ sample_sums() }},
        min_by(reading_until_at, reading_from_at) as first_reading_until_at,
        max(reading_from_at) as last_reading_from_at

    from cut_readings
    group by series_number, bucket_start_at, bucket_end_at

),

rolled_up as (

    select
        cast(bucket_start_at as date) as usage_date,
        summed.*

    from summed

)

select * from rolled_up
where {{ in_rolled_up_days('usage_date') }}
