-- What the samples of each device are worth: how many there were, what they cover, on which signal they rest, and what
-- about them should be known before their figures are used.

{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

with

minutes as (

    select
        minutes.*,
        series.cluster,
        series.node,
        series.gpu_uuid

    from {{ ref('int_gpu_minutes_clocked') }} as minutes
    inner join {{ ref('int_sample_series') }} as series on minutes.series_number = series.series_number
    where {{ in_touched_days('minutes.usage_date') }}

),

offsets as (

    select
        usage_date,
        cluster,
        node,
        max_by(offset_seconds, abs(offset_seconds)) as offset_seconds,
        bool_or(is_skewed) as is_skewed

    from {{ ref('fct_node_clock_offsets') }}
    where {{ in_touched_days('usage_date') }}
    group by usage_date, cluster, node

),

summed as (

    select
        usage_date,
        cluster,
        node,
        gpu_uuid as gpu_id,
        cast(sum(reading_count) as bigint) as reading_count,
        cast(sum(repeat_count) as bigint) as repeat_count,
        cast(sum(covered_us) as bigint) as covered_us,
        cast(sum(graphics_us) as bigint) as graphics_us,
        cast(sum(utilization_us) as bigint) as utilization_us,
        sum(energy_joules) as energy_joules,
        sum(case when power_excess_joules is not null then energy_joules end) as metered_joules,
        sum(power_excess_joules) as power_excess_joules

    from minutes
    group by usage_date, cluster, node, gpu_uuid

),

described as (

    select
        summed.*,
        round(power_excess_joules / nullif(metered_joules, 0), 9) as energy_difference_ratio,
        offsets.offset_seconds as clock_offset_seconds,
        coalesce(offsets.is_skewed, false) as is_clock_skewed

    from summed
    left join offsets
        on
            summed.usage_date = offsets.usage_date
            and summed.cluster = offsets.cluster
            and summed.node = offsets.node
    where summed.reading_count > 0

),

final as (

    select
        -- ids
        usage_date,
        cluster,
        node,
        gpu_id,

        -- numerics
        reading_count,
        repeat_count,
        cast(covered_us as double) / 3.6e9 as covered_hours,
        cast(graphics_us as double) / 3.6e9 as graphics_engine_active_hours,
        cast(utilization_us as double) / 3.6e9 as gpu_utilization_hours,
        round(energy_joules / 3.6e6, 9) as energy_kwh,
        round(metered_joules / 3.6e6, 9) as metered_kwh,
        round((metered_joules + power_excess_joules) / 3.6e6, 9) as metered_by_power_kwh,
        energy_difference_ratio,
        clock_offset_seconds,

        -- text
        concat_ws(
            ',',
            case when is_clock_skewed then 'clock_skewed' end,
            case
                when abs(energy_difference_ratio) > {{ var('energy_difference_tolerance_ratio') }} then 'energy_disagrees'
            end,
            case when repeat_count > 0 then 'readings_repeated' end
        ) as flags

    from described

)

select * from final
