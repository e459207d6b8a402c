-- What each charge comes to on each day: by device-time in inventory where its resource had any in its period, else by
-- calendar time. Hours are weighed over the whole charge, so that its days add up to it. This is the bill's side of
-- the reconciliation: it starts from the lines and never looks at the ledger.

with

charges as (

    select * from {{ ref('int_billing_charges_recognised') }}

),

device_hours as (

    select
        hour_start_at,
        usage_date,
        inventory_us,
        {{ resource_key('provider_resource_id') }} as resource_key

    from {{ ref('int_device_hours') }}
    where inventory_us > 0 and provider_resource_id is not null

),

charge_hours as (

    select
        charges.charge_id,
        charges.resource_key,
        charges.starts_at,
        charges.ends_at,
        {{ each_touched('hour', 'charges.starts_at', 'charges.ends_at') }} as hour_start_at

    from charges
    where charges.line_role = 'capacity' and charges.resource_key is not null

),

device_days as (

    select
        charge_hours.charge_id,
        device_hours.usage_date,
        cast(sum(
            least(
                device_hours.inventory_us,
                {{ microseconds_between(
                    'greatest(charge_hours.starts_at, charge_hours.hour_start_at)',
                    'least(charge_hours.ends_at, charge_hours.hour_start_at + interval 1 hour)'
                ) }}
            )
        ) as bigint) as weight_us

    from charge_hours
    inner join device_hours
        on
            charge_hours.resource_key = device_hours.resource_key
            and charge_hours.hour_start_at = device_hours.hour_start_at
    group by charge_hours.charge_id, device_hours.usage_date

),

charges_with_devices as (

    select distinct charge_id
    from device_days

),

charges_without_devices as (

    select charges.*
    from charges
    left join charges_with_devices on charges.charge_id = charges_with_devices.charge_id
    where charges_with_devices.charge_id is null

),

calendar_touched as (

    select
        charge_id,
        starts_at,
        ends_at,
        {{ each_touched('day', 'starts_at', 'ends_at') }} as day_start_at

    from charges_without_devices

),

calendar_days as (

    select
        charge_id,
        cast(day_start_at as date) as usage_date,
        {{ microseconds_between(
            'greatest(starts_at, day_start_at)', 'least(ends_at, day_start_at + interval 1 day)'
        ) }} as weight_us

    from calendar_touched

),

day_weights as (

    select
        charge_id,
        usage_date,
        weight_us,
        true as has_device_time

    from device_days

    union all

    select
        charge_id,
        usage_date,
        weight_us,
        false as has_device_time

    from calendar_days

),

day_shares as (

    select
        day_weights.*,
        cast(weight_us as double) / nullif(sum(weight_us) over (partition by charge_id), 0) as day_share

    from day_weights

),

-- an amount that stays whole is not sent through a double
shared as (

    select
        charges.charge_id,
        day_shares.usage_date,
        day_shares.day_share * charges.elapsed_ratio as charge_ratio,
        coalesce(charges.resource_key, 'unknown') as resource_key,
        charges.line_role,
        charges.provider_name,
        charges.billing_account_id,
        charges.currency,
        day_shares.has_device_time,
        case
            when day_shares.day_share = 1 then charges.effective_cost
            else cast(round(cast(charges.effective_cost as double) * day_shares.day_share, 12) as decimal(38, 12))
        end as effective_cost,
        case
            when day_shares.day_share = 1 then charges.billed_cost
            else cast(round(cast(charges.billed_cost as double) * day_shares.day_share, 12) as decimal(38, 12))
        end as billed_cost

    from day_shares
    inner join charges on day_shares.charge_id = charges.charge_id

),

-- the part of a node's price that is not its GPUs' is a non-time line
placed as (

    select
        charge_id,
        usage_date,
        charge_ratio,
        resource_key,
        line_role,
        provider_name,
        billing_account_id,
        currency,
        has_device_time,
        billed_cost,
        effective_cost,
        case
            when line_role <> 'capacity' then effective_cost
            when has_device_time
                then cast(
                    cast(effective_cost as decimal(26, 12)) * cast(1 - {{ var('gpu_cost_share') }} as decimal(7, 6))
                    as decimal(38, 12)
                )
            else cast(0 as decimal(38, 12))
        end as non_time_cost,
        case
            when line_role = 'capacity' and not has_device_time then effective_cost
            else cast(0 as decimal(38, 12))
        end as billed_without_telemetry_cost

    from shared

)

select * from placed
