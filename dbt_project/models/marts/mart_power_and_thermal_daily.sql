{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

with

ledger as (

    select * from {{ ref('fct_gpu_ledger_hourly') }}
    where {{ in_touched_days('usage_date') }}

),

readings as (

    select * from {{ ref('int_node_readings_daily') }}
    where {{ in_touched_days('usage_date') }}

),

nodes as (

    select * from {{ ref('dim_nodes') }}

),

ledger_summed as (

    select
        usage_date,
        cluster,
        node,
        cast(sum(gpu_microseconds) as bigint) as capacity_us,
        cast(sum(case when state = 'throttled' then gpu_microseconds else 0 end) as bigint) as throttled_us,
        sum(energy_kwh) as energy_kwh,
        sum(case when is_ghost then energy_kwh when energy_kwh is not null then 0 end) as ghost_energy_kwh

    from ledger
    group by usage_date, cluster, node

),

joined as (

    select
        ledger_summed.*,
        coalesce(readings.energy_us, 0.0) as energy_us,
        coalesce(readings.temperature_us, 0.0) as temperature_us,
        readings.temperature_mean_celsius,
        readings.temperature_p95_celsius,
        readings.temperature_max_celsius

    from ledger_summed
    left join readings
        on
            ledger_summed.usage_date = readings.usage_date
            and ledger_summed.cluster = readings.cluster
            and ledger_summed.node = readings.node

),

final as (

    select
        joined.usage_date,
        joined.cluster || '/' || joined.node as node_id,
        joined.cluster,
        joined.node,
        nodes.region,
        nodes.zone,
        nodes.rack,
        cast(joined.capacity_us as double) / 3.6e9 as capacity_gpu_hours,
        joined.energy_kwh,
        joined.ghost_energy_kwh,
        case
            when joined.energy_kwh is not null then greatest(0.0, joined.energy_kwh - coalesce(joined.ghost_energy_kwh, 0.0))
        end as other_energy_kwh,
        cast(joined.energy_us as double) / 3.6e9 as energy_gpu_hours,
        -- a reading may reach a little beyond the time in inventory
        least(1.0, cast(joined.energy_us as double) / nullif(joined.capacity_us, 0)) as energy_coverage_ratio,
        cast(joined.throttled_us as double) / 3.6e9 as throttled_gpu_hours,
        cast(joined.temperature_us as double) / 3.6e9 as temperature_gpu_hours,
        cast(joined.temperature_mean_celsius as double) as temperature_mean_celsius,
        cast(joined.temperature_p95_celsius as double) as temperature_p95_celsius,
        cast(joined.temperature_max_celsius as double) as temperature_max_celsius

    from joined
    left join nodes
        on joined.cluster || '/' || joined.node = nodes.node_id

)

select * from final
