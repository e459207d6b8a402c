-- How warm the devices of a node were, and for how long their energy was measured: from minutes, by covered time.

with

slots as (

    select * from {{ ref('int_slots_numbered') }}

),

-- a slot is on the node on which its device is in the hour
slot_hours as (

    select
        slots.slot_number,
        device_hours.hour_start_at,
        device_hours.cluster,
        device_hours.node

    from {{ ref('int_device_hours') }} as device_hours
    inner join slots on device_hours.cluster = slots.cluster and device_hours.gpu_id = slots.gpu_id
    where {{ in_replaced_days('device_hours.usage_date') }}

),

on_nodes as (

    select
        minutes.usage_date,
        slot_hours.cluster,
        slot_hours.node,
        round(minutes.temperature_celsius, 1) as minute_celsius,
        sum(minutes.covered_us * minutes.slot_fraction) as covered_us,
        sum(minutes.temperature_celsius * minutes.covered_us * minutes.slot_fraction) as celsius_us,
        max(minutes.temperature_celsius) as max_celsius,
        sum(
            case when minutes.energy_joules is not null then minutes.covered_us * minutes.slot_fraction else 0.0 end
        ) as energy_us

    from {{ ref('int_gpu_minutes') }} as minutes
    inner join slot_hours
        on
            minutes.slot_number = slot_hours.slot_number
            and date_trunc('hour', minutes.minute_start_at) = slot_hours.hour_start_at
    where minutes.covered_us > 0
    group by minutes.usage_date, slot_hours.cluster, slot_hours.node, round(minutes.temperature_celsius, 1)

),

accumulated as (

    select
        on_nodes.*,
        sum(covered_us) over (
            partition by usage_date, cluster, node
            order by minute_celsius nulls last
            rows between unbounded preceding and current row
        ) as up_to_us,
        sum(case when minute_celsius is not null then covered_us else 0.0 end) over (
            partition by usage_date, cluster, node
        ) as measured_us

    from on_nodes

),

summed as (

    select
        usage_date,
        cluster,
        node,
        sum(energy_us) as energy_us,
        max(measured_us) as temperature_us,
        sum(celsius_us) / nullif(max(measured_us), 0) as temperature_mean_celsius,
        min(
            case
                when minute_celsius is not null and round(up_to_us, 3) >= round(0.95 * measured_us, 3) then minute_celsius
            end
        ) as temperature_p95_celsius,
        max(max_celsius) as temperature_max_celsius

    from accumulated
    group by usage_date, cluster, node

)

select * from summed
