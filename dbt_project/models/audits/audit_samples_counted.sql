-- The promise that nothing is dropped without a reason, for samples: each landed reading starts in one minute of the
-- roll-up or repeats one that does, and no minute covers more than itself. Promised are the readings landed, measured
-- those that the minutes hold, repeats included. A day that does not hold keeps the build from being published: samples
-- were lost or counted twice on the way to minutes; build that day again.

{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

with

landed as (

    select * from {{ ref('int_dated_rows_counted') }}
    where table_name = 'gpu_samples' and {{ in_touched_days('usage_date') }}

),

minutes as (

    select
        minutes.*,
        series.cluster

    from {{ ref('int_gpu_minutes_rolled_up') }} as minutes
    inner join {{ ref('int_sample_series') }} as series on minutes.series_number = series.series_number
    where {{ in_touched_days('minutes.usage_date') }}

),

promised_days as (

    select
        usage_date,
        cluster,
        sum(rows_landed) as row_count

    from landed
    group by usage_date, cluster

),

measured_days as (

    select
        usage_date,
        cluster,
        sum(reading_count) as reading_count,
        sum(repeat_count) as repeat_count,
        sum(covered_us) as covered_us,
        count(
            case
                when
                    covered_us > {{ microseconds_between('bucket_start_at', 'bucket_end_at') }}
                    or covered_us < 0
                    or idle_us > covered_us
                    or graphics_us + utilization_us > covered_us
                    then 1
            end
        ) as minutes_overfull

    from minutes
    group by usage_date, cluster

),

final as (

    select
        coalesce(promised_days.usage_date, measured_days.usage_date) as usage_date,
        coalesce(promised_days.cluster, measured_days.cluster) as cluster,
        cast(coalesce(promised_days.row_count, 0) as bigint) as promised,
        cast(coalesce(measured_days.reading_count, 0) + coalesce(measured_days.repeat_count, 0) as bigint) as measured,
        cast(
            coalesce(measured_days.reading_count, 0) + coalesce(measured_days.repeat_count, 0)
            - coalesce(promised_days.row_count, 0) as bigint
        ) as difference,
        cast(coalesce(measured_days.repeat_count, 0) as bigint) as repeat_count,
        cast(coalesce(measured_days.covered_us, 0) as bigint) as covered_us,
        coalesce(measured_days.minutes_overfull, 0) as minutes_overfull,
        coalesce(measured_days.reading_count, 0) + coalesce(measured_days.repeat_count, 0)
        = coalesce(promised_days.row_count, 0)
        and coalesce(measured_days.minutes_overfull, 0) = 0 as holds

    from promised_days
    full outer join measured_days
        on promised_days.usage_date = measured_days.usage_date and promised_days.cluster = measured_days.cluster

)

select * from final
