-- What of the bills no device explains, line by line, and what of the devices no bill explains, device by device: the two
-- lists to hold against each other when a resource id does not match. A plain table, as the reconciliation is: a device
-- that is landed later changes days of the bill that nothing else touches.

with

charge_days as (

    select * from {{ ref('int_billing_charge_days') }}
    where line_role = 'capacity' and not has_device_time

),

lines as (

    select * from {{ ref('int_billing_lines_classified') }}

),

device_costs as (

    select * from {{ ref('int_device_hour_costs') }}
    where cost_source = 'unpriced'

),

device_hours as (

    select * from {{ ref('int_device_hours') }}

),

lines_without_devices as (

    select
        charge_days.usage_date,
        'billed_without_telemetry' as mismatch,
        lines.line_id,
        'unknown' as gpu_id,
        'unknown' as cluster,
        'unknown' as node,
        charge_days.provider_name,
        charge_days.billing_account_id,
        charge_days.currency,
        coalesce(lines.resource_id, 'unknown') as resource_id,
        coalesce(lines.charge_description, lines.resource_type, lines.sku_id, '') as description,
        cast(null as double) as gpu_hours,
        cast(
            case
                when charge_days.charge_ratio = 1 then cast(lines.effective_cost as decimal(38, 12))
                else cast(round(cast(lines.effective_cost as double) * charge_days.charge_ratio, 12) as decimal(38, 12))
            end as decimal(18, 6)
        ) as cost

    from charge_days
    inner join lines on charge_days.charge_id = lines.charge_id

),

devices_without_price as (

    select
        device_costs.usage_date,
        'unpriced' as mismatch,
        'unknown' as line_id,
        device_costs.gpu_id,
        device_costs.cluster,
        max(device_hours.node) as node,
        max(coalesce(device_hours.provider, 'unknown')) as provider_name,
        'unknown' as billing_account_id,
        'unknown' as currency,
        max(coalesce(device_hours.provider_resource_id, 'unknown')) as resource_id,
        max(device_costs.gpu_model) as description,
        sum(device_hours.inventory_us) / 3.6e9 as gpu_hours,
        cast(null as decimal(18, 6)) as cost

    from device_costs
    inner join device_hours
        on
            device_costs.hour_start_at = device_hours.hour_start_at
            and device_costs.cluster = device_hours.cluster
            and device_costs.gpu_id = device_hours.gpu_id
    group by device_costs.usage_date, device_costs.gpu_id, device_costs.cluster

),

final as (

    select * from lines_without_devices
    union all
    select * from devices_without_price
    where gpu_hours > 0

)

select * from final
