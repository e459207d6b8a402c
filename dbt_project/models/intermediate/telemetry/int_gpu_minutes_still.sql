-- Minutes whose power stood still since the last reading of the minute before: where an exporter may have repeated itself, and
-- samples must be read again to know (int_gpu_minutes_frozen). A model of its own, since its few rows could not be foreseen
-- in one query, and all samples would be read for them.

-- (The minutes are no common table expression: used twice, they would be written down in full before either use.)

{{ config(database='scratch') }}

{% set is_in_partitions = in_partitions('touched', day='usage_date') %}

with

-- a minute in which service changes is one minute all the same: its parts are put together
whole as (

    select
        usage_date,
        series_number,
        bucket_start_at,
        reading_count,
        power_min_watts,
        power_max_watts,
        covered_us,
        idle_us

    from {{ ref('int_gpu_minutes_rolled_up') }}
    where
        {{ is_in_partitions }}
        and {{ in_touched_days('usage_date') }}
        and bucket_end_at = bucket_start_at + interval 1 minute

    union all

    select
        usage_date,
        series_number,
        date_trunc('minute', bucket_start_at) as bucket_start_at,
        cast(sum(reading_count) as bigint) as reading_count,
        min(power_min_watts) as power_min_watts,
        max(power_max_watts) as power_max_watts,
        cast(sum(covered_us) as bigint) as covered_us,
        cast(sum(idle_us) as bigint) as idle_us

    from {{ ref('int_gpu_minutes_rolled_up') }}
    where
        {{ is_in_partitions }}
        and {{ in_touched_days('usage_date') }}
        and bucket_end_at < bucket_start_at + interval 1 minute
    group by usage_date, series_number, date_trunc('minute', bucket_start_at)

),

still as (

    select
        usage_date,
        series_number,
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
        series_number,
        bucket_start_at,
        date_trunc('minute', bucket_start_at) as minute_start_at,
        power_min_watts,
        power_max_watts

    from {{ ref('int_gpu_minutes_rolled_up') }}
    where reading_count > 0 and {{ is_in_partitions }} and {{ in_ledger_minutes('bucket_start_at') }}

),

-- the last part of a minute with readings before each: minutes are equal, or one reading a minute would make a year's
-- minutes meet each other
preceded as (

    select
        still.usage_date,
        still.series_number,
        still.bucket_start_at,
        still.reading_count,
        still.power_min_watts,
        max(told.bucket_start_at) as bucket_before_at,
        max_by(told.power_min_watts, told.bucket_start_at) as power_min_before_watts,
        max_by(told.power_max_watts, told.bucket_start_at) as power_max_before_watts

    from still
    inner join told
        on
            still.series_number = told.series_number
            and still.minute_before_at = told.minute_start_at
    group by
        still.usage_date, still.series_number, still.bucket_start_at, still.reading_count, still.power_min_watts

)

select * from preceded
where power_min_watts between power_min_before_watts and power_max_before_watts
