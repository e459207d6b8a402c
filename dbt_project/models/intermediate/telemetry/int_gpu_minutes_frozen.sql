-- Minutes in which an exporter may have repeated itself: every reading that starts in it has the same power and the
-- same value of at least one more of temperature, clock, memory, activity as the last reading of the minute before,
-- and power is not a whole number of watts or the slot is not idle (semantics 4). Found on minutes first, by constant
-- power; only where such minutes stand are samples read again.

{{ config(materialized='incremental', incremental_strategy='replace_days') }}

with

still as (

    select * from {{ ref('int_gpu_minutes_still') }}

),

series as (

    select * from {{ ref('int_sample_series') }}

),

samples as (

    select * from {{ ref('stg_landing__gpu_samples') }}
    where {{ in_partitions('touched') }}

),

wanted as (

    select
        series.*,
        still.bucket_start_at

    from still
    inner join series on still.series_number = series.series_number

    union

    select
        series.*,
        still.bucket_before_at as bucket_start_at

    from still
    inner join series on still.series_number = series.series_number

),

readings as (

    select
        wanted.series_number,
        wanted.bucket_start_at,
        samples.interval_start_at,
        samples.power_watts,
        samples.temperature_celsius,
        samples.sm_clock_mhz,
        samples.memory_used_bytes,
        coalesce(samples.sm_active_ratio, samples.graphics_engine_active_ratio, samples.gpu_utilization_ratio) as activity

    from samples
    inner join wanted
        on
            samples.cluster = wanted.cluster
            and samples.node = wanted.node
            and samples.gpu_uuid = wanted.gpu_uuid
            and samples.slot_uuid is not distinct from wanted.slot_uuid
            and samples.source = wanted.source
            and samples.interval_start_at >= wanted.bucket_start_at
            and samples.interval_start_at < date_trunc('minute', wanted.bucket_start_at) + interval 1 minute

),

last_readings as (

    select
        series_number,
        bucket_start_at,
        max_by(power_watts, interval_start_at) as power_watts,
        max_by(coalesce(temperature_celsius, -1), interval_start_at) as temperature_celsius,
        max_by(coalesce(sm_clock_mhz, -1), interval_start_at) as sm_clock_mhz,
        max_by(coalesce(memory_used_bytes, -1), interval_start_at) as memory_used_bytes,
        max_by(coalesce(activity, -1), interval_start_at) as activity

    from readings
    group by series_number, bucket_start_at

),

compared as (

    select
        still.usage_date,
        still.series_number,
        still.bucket_start_at,
        max(still.reading_count) as reading_count,
        -- a value that is missing is like no other
        bool_and(
            coalesce(readings.power_watts = last_readings.power_watts, false)
            and (
                coalesce(readings.temperature_celsius = last_readings.temperature_celsius, false)
                or coalesce(readings.sm_clock_mhz = last_readings.sm_clock_mhz, false)
                or coalesce(readings.memory_used_bytes = last_readings.memory_used_bytes, false)
                or coalesce(readings.activity = last_readings.activity, false)
            )
        ) as is_frozen

    from still
    inner join readings
        on
            still.series_number = readings.series_number
            and still.bucket_start_at = readings.bucket_start_at
    inner join last_readings
        on
            still.series_number = last_readings.series_number
            and still.bucket_before_at = last_readings.bucket_start_at
    group by still.usage_date, still.series_number, still.bucket_start_at

)

select
    usage_date,
    series_number,
    bucket_start_at,
    reading_count

from compared
where is_frozen
