-- Minutes in which an exporter may have repeated itself: every reading that starts in it has the same power and the
-- same value of at least one more of temperature, clock, memory, activity as the last reading of the minute before,
-- and power is not a whole number of watts or the slot is not idle (semantics 4). Found on minutes first, by constant
-- power; only where such minutes stand are samples read again.

-- (The minutes are no common table expression: used twice, it would be written down in full before either use.)

{{ config(materialized='incremental', incremental_strategy='replace_days') }}

with

-- a minute in which service changes is one minute all the same: its parts are put together
whole as (

    select
        usage_date,
        cluster,
        gpu_uuid,
        slot_uuid,
        source,
        bucket_start_at,
        reading_count,
        power_min_watts,
        power_max_watts,
        covered_us,
        idle_us

    from {{ ref('int_gpu_minutes_rolled_up') }}
    where
        {{ in_partitions('touched', day='usage_date') }}
        and {{ in_touched_days('usage_date') }}
        and bucket_end_at = bucket_start_at + interval 1 minute

    union all

    select
        usage_date,
        cluster,
        gpu_uuid,
        slot_uuid,
        source,
        date_trunc('minute', bucket_start_at) as bucket_start_at,
        cast(sum(reading_count) as bigint) as reading_count,
        min(power_min_watts) as power_min_watts,
        max(power_max_watts) as power_max_watts,
        cast(sum(covered_us) as bigint) as covered_us,
        cast(sum(idle_us) as bigint) as idle_us

    from {{ ref('int_gpu_minutes_rolled_up') }}
    where
        {{ in_partitions('touched', day='usage_date') }}
        and {{ in_touched_days('usage_date') }}
        and bucket_end_at < bucket_start_at + interval 1 minute
    group by usage_date, cluster, gpu_uuid, slot_uuid, source, date_trunc('minute', bucket_start_at)

),

still as (

    select
        usage_date,
        cluster,
        gpu_uuid,
        slot_uuid,
        source,
        bucket_start_at,
        bucket_start_at - interval 1 minute as minute_before_at,
        reading_count,
        power_min_watts

    from whole
    where
        reading_count > 0
        and power_min_watts = power_max_watts
        and not (covered_us = idle_us and power_min_watts = floor(power_min_watts))

),

told as (

    select
        cluster,
        gpu_uuid,
        slot_uuid,
        source,
        bucket_start_at,
        date_trunc('minute', bucket_start_at) as minute_start_at,
        power_min_watts,
        power_max_watts

    from {{ ref('int_gpu_minutes_rolled_up') }}
    where reading_count > 0 and {{ in_partitions('touched', day='usage_date') }} and {{ in_ledger_minutes('bucket_start_at') }}

),

-- the last part of a minute with readings before each: minutes are equal, or one reading a minute would make a year's
-- minutes meet each other
preceded as (

    select
        still.usage_date,
        still.cluster,
        still.gpu_uuid,
        still.slot_uuid,
        still.source,
        still.bucket_start_at,
        still.reading_count,
        still.power_min_watts,
        max(told.bucket_start_at) as bucket_before_at,
        max_by(told.power_min_watts, told.bucket_start_at) as power_min_before_watts,
        max_by(told.power_max_watts, told.bucket_start_at) as power_max_before_watts

    from still
    inner join told
        on
            still.cluster = told.cluster
            and still.gpu_uuid = told.gpu_uuid
            and still.slot_uuid is not distinct from told.slot_uuid
            and still.source is not distinct from told.source
            and still.minute_before_at = told.minute_start_at
    group by
        still.usage_date, still.cluster, still.gpu_uuid, still.slot_uuid, still.source,
        still.bucket_start_at, still.reading_count, still.power_min_watts

),

constant as (

    select * from preceded
    where power_min_watts between power_min_before_watts and power_max_before_watts

),

samples as (

    select * from {{ ref('stg_landing__gpu_samples') }}
    where {{ in_partitions('touched') }}

),

wanted as (

    select cluster, gpu_uuid, slot_uuid, source, bucket_start_at
    from constant
    union
    select cluster, gpu_uuid, slot_uuid, source, bucket_before_at
    from constant

),

readings as (

    select
        samples.cluster,
        samples.gpu_uuid,
        samples.slot_uuid,
        samples.source,
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
            and samples.gpu_uuid = wanted.gpu_uuid
            and samples.slot_uuid is not distinct from wanted.slot_uuid
            and samples.source is not distinct from wanted.source
            and samples.interval_start_at >= wanted.bucket_start_at
            and samples.interval_start_at < date_trunc('minute', wanted.bucket_start_at) + interval 1 minute

),

last_readings as (

    select
        cluster,
        gpu_uuid,
        slot_uuid,
        source,
        bucket_start_at,
        max_by(power_watts, interval_start_at) as power_watts,
        max_by(coalesce(temperature_celsius, -1), interval_start_at) as temperature_celsius,
        max_by(coalesce(sm_clock_mhz, -1), interval_start_at) as sm_clock_mhz,
        max_by(coalesce(memory_used_bytes, -1), interval_start_at) as memory_used_bytes,
        max_by(coalesce(activity, -1), interval_start_at) as activity

    from readings
    group by cluster, gpu_uuid, slot_uuid, source, bucket_start_at

),

compared as (

    select
        constant.usage_date,
        constant.cluster,
        constant.gpu_uuid,
        constant.slot_uuid,
        constant.source,
        constant.bucket_start_at,
        max(constant.reading_count) as reading_count,
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

    from constant
    inner join readings
        on
            constant.cluster = readings.cluster
            and constant.gpu_uuid = readings.gpu_uuid
            and constant.slot_uuid is not distinct from readings.slot_uuid
            and constant.source is not distinct from readings.source
            and constant.bucket_start_at = readings.bucket_start_at
    inner join last_readings
        on
            constant.cluster = last_readings.cluster
            and constant.gpu_uuid = last_readings.gpu_uuid
            and constant.slot_uuid is not distinct from last_readings.slot_uuid
            and constant.source is not distinct from last_readings.source
            and constant.bucket_before_at = last_readings.bucket_start_at
    group by
        constant.usage_date, constant.cluster, constant.gpu_uuid, constant.slot_uuid, constant.source, constant.bucket_start_at

)

select
    usage_date,
    cluster,
    gpu_uuid,
    slot_uuid,
    source,
    bucket_start_at,
    reading_count

from compared
where is_frozen
