{{ config(materialized='view') }}

-- What a microsecond of a device cost in an hour: for amounts of a part of the hour that the ledger does not single out.

with

device_hours as (

    select * from {{ ref('int_device_hours') }}

),

costs as (

    select * from {{ ref('int_device_hour_costs') }}

),

rated as (

    select
        device_hours.hour_start_at,
        device_hours.usage_date,
        device_hours.cluster,
        device_hours.gpu_id,
        costs.currency,
        cast(costs.cost as double) / nullif(device_hours.inventory_us, 0) as cost_per_gpu_us

    from device_hours
    inner join costs
        on
            device_hours.hour_start_at = costs.hour_start_at
            and device_hours.cluster = costs.cluster
            and device_hours.gpu_id = costs.gpu_id

)

select * from rated
