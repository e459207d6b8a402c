-- The unused part of commitments, spread evenly over the hours it was paid for: money of no device. What is left of
-- whole micro-units goes one each to the earliest hours.

with

charges as (

    select
        charge_id,
        provider_name,
        billing_account_id,
        currency,
        starts_at,
        ends_at,
        {{ as_micros('effective_cost') }} as cost_micros

    from {{ ref('int_billing_charges_recognised') }}
    where line_role = 'commitment_unused'

),

charge_hours as (

    select
        charges.*,
        {{ each_touched('hour', 'starts_at', 'ends_at') }} as hour_start_at

    from charges

),

weighed as (

    select
        charge_hours.*,
        {{ microseconds_between(
            'greatest(starts_at, hour_start_at)', 'least(ends_at, hour_start_at + interval 1 hour)'
        ) }} as hour_us

    from charge_hours

),

shared as (

    {{ shared_out('weighed', 'cost_micros', 'hour_us', ['charge_id'], ['hour_start_at']) }}

),

final as (

    select
        hour_start_at,
        cast(hour_start_at as date) as usage_date,
        provider_name,
        currency,
        {{ from_micros('sum(part)') }} as cost

    from shared
    group by hour_start_at, provider_name, currency

)

select * from final
