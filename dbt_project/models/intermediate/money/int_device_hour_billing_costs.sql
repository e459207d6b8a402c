{{ config(
    materialized='incremental', incremental_strategy='replace_days', meta={'days': 'priced'},
    on_schema_change='append_new_columns'
) }}

-- depends_on: {{ ref('int_days_touched') }}
-- Each charge for a resource is shared out over the device-time its devices were in inventory inside the charge's
-- period, in whole micro-units, first to its days, then to the device-hours of each day: parts rounded towards zero,
-- what is left one unit each to the largest fractions (ties: the earliest day or hour, then the lowest gpu_id). So the
-- days add up to the charge, and the device-hours to their day. Days are shares of the whole charge; hence all its
-- hours are weighed, also those outside the touched days.

with

charges as (

    select * from {{ ref('int_billing_charges_recognised') }}
    where line_role = 'capacity' and resource_key is not null

),

device_hours as (

    select * from {{ ref('int_device_hours') }}

),

charges_wanted as (

    select
        charge_id,
        provider_name,
        billing_account_id,
        currency,
        resource_key,
        starts_at,
        ends_at,
        {{ as_micros('cast(effective_cost as decimal(26, 12)) * cast(' ~ var('gpu_cost_share') ~ ' as decimal(7, 6))') }} as cost_micros

    from charges
    {% if is_incremental() %}
    where
        exists (
            select 1
            from {{ ref('int_days_touched') }} as days
            where days.usage_date >= cast(charges.starts_at as date) and days.usage_date <= cast(charges.ends_at as date)
        )
    {% endif %}

),

charge_hours as (

    select
        charges_wanted.*,
        {{ each_touched('hour', 'starts_at', 'ends_at') }} as hour_start_at

    from charges_wanted

),

-- inside an hour the device-time is known by its length only: as much of it as fits is taken to lie in the period
weighed as (

    select
        charge_hours.charge_id,
        charge_hours.provider_name,
        charge_hours.billing_account_id,
        charge_hours.currency,
        charge_hours.resource_key,
        charge_hours.cost_micros,
        device_hours.hour_start_at,
        device_hours.usage_date,
        device_hours.cluster,
        device_hours.gpu_id,
        least(
            device_hours.inventory_us,
            {{ microseconds_between(
                'greatest(charge_hours.starts_at, charge_hours.hour_start_at)',
                'least(charge_hours.ends_at, charge_hours.hour_start_at + interval 1 hour)'
            ) }}
        ) as device_us

    from charge_hours
    inner join device_hours
        on
            charge_hours.hour_start_at = device_hours.hour_start_at
            and charge_hours.resource_key = {{ resource_key('device_hours.provider_resource_id') }}
    where device_hours.inventory_us > 0

),

charge_days as (

    select
        charge_id,
        usage_date,
        cost_micros,
        cast(sum(device_us) as bigint) as day_us

    from weighed
    group by charge_id, usage_date, cost_micros

),

shared_to_days as (

    {{ shared_out('charge_days', 'cost_micros', 'day_us', ['charge_id'], ['usage_date']) }}

),

day_weighed as (

    select
        weighed.*,
        shared_to_days.part as day_micros

    from weighed
    inner join shared_to_days
        on weighed.charge_id = shared_to_days.charge_id and weighed.usage_date = shared_to_days.usage_date
    where {{ in_priced_days('weighed.usage_date') }}

),

shared as (

    {{ shared_out('day_weighed', 'day_micros', 'device_us', ['charge_id', 'usage_date'], ['hour_start_at', 'gpu_id', 'cluster']) }}

),

added as (

    select
        hour_start_at,
        usage_date,
        cluster,
        gpu_id,
        provider_name,
        billing_account_id,
        currency,
        resource_key,
        cast(sum(part) as bigint) as cost_micros

    from shared
    group by hour_start_at, usage_date, cluster, gpu_id, provider_name, billing_account_id, currency, resource_key

),

in_currency as (

    select
        added.*,
        sum(cost_micros) over (partition by hour_start_at, cluster, gpu_id, currency) as currency_micros

    from added

),

-- one currency per device and hour: the larger amount stands
ranked as (

    select
        in_currency.*,
        dense_rank() over (
            partition by hour_start_at, cluster, gpu_id
            order by currency_micros desc nulls last, currency asc nulls last
        ) as currency_rank

    from in_currency

),

final as (

    select
        hour_start_at,
        usage_date,
        cluster,
        gpu_id,
        provider_name,
        billing_account_id,
        currency,
        resource_key,
        currency_rank = 1 as is_in_ledger,
        {{ from_micros('cost_micros') }} as cost

    from ranked

)

select * from final
