-- How warm the devices of a node were, and for how long their energy was measured: from minutes, by covered time.

with

minutes as (

    select
        slot_number,
        date_trunc('hour', minute_start_at) as hour_start_at,
        round(temperature_celsius, 1) as minute_celsius,
        sum(covered_us * slot_fraction) as covered_us,
        sum(temperature_celsius * covered_us * slot_fraction) as celsius_us,
        max(temperature_celsius) as max_celsius,
        sum(case when energy_joules is not null then covered_us * slot_fraction else 0.0 end) as energy_us

    from {{ ref('int_gpu_minutes') }}
    where covered_us > 0 and {{ in_replaced_days('usage_date') }}
    group by slot_number, date_trunc('hour', minute_start_at), round(temperature_celsius, 1)

),

slots as (

    select * from {{ ref('int_slots_numbered') }}

),

device_hours as (

    select * from {{ ref('int_device_hours') }}

),

on_nodes as (

    select
        device_hours.usage_date,
        device_hours.cluster,
        device_hours.node,
        minutes.minute_celsius,
        sum(minutes.covered_us) as covered_us,
        sum(minutes.celsius_us) as celsius_us,
        max(minutes.max_celsius) as max_celsius,
        sum(minutes.energy_us) as energy_us

    from minutes
    inner join slots on minutes.slot_number = slots.slot_number
    inner join device_hours
        on
            slots.cluster = device_hours.cluster
            and slots.gpu_id = device_hours.gpu_id
            and minutes.hour_start_at = device_hours.hour_start_at
    group by device_hours.usage_date, device_hours.cluster, device_hours.node, minutes.minute_celsius

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
