{{ config(
    materialized='incremental', incremental_strategy='replace_days', meta={'days': 'priced'},
    on_schema_change='append_new_columns'
) }}

-- What each device cost in each hour, and where the figure comes from: its bill; for a device billed before, on days
-- after the delivered-through date, an estimate from its last bill; else a rate card; else nothing is known, and the
-- cost is null. The bill beats every other source, and no rate is invented (semantics 7).

with

device_hours as (

    select
        int_device_hours.*,
        {{ resource_key('int_device_hours.provider_resource_id') }} as resource_key

    from {{ ref('int_device_hours') }} as int_device_hours
    where {{ in_priced_days('int_device_hours.usage_date') }}

),

billing_costs as (

    select * from {{ ref('int_device_hour_billing_costs') }}
    where is_in_ledger and {{ in_priced_days('usage_date') }}

),

estimate_rates as (

    select * from {{ ref('int_billing_estimate_rates') }}

),

rate_cards as (

    select * from {{ ref('int_rate_card_prices') }}

),

billed as (

    select
        hour_start_at,
        cluster,
        gpu_id,
        currency,
        min(provider_name) as provider_name,
        cast(sum(cost) as decimal(18, 6)) as cost

    from billing_costs
    group by hour_start_at, cluster, gpu_id, currency

),

-- the card in force at the start of the hour, the most specific first
cards as (

    {{ rate_cards_in_force('device_hours', 'rate_cards') }}

),

joined as (

    select
        device_hours.hour_start_at,
        device_hours.usage_date,
        device_hours.cluster,
        device_hours.gpu_id,
        device_hours.gpu_model,
        coalesce(billed.provider_name, estimate_rates.provider_name, device_hours.provider, 'unknown') as provider_name,
        cast(device_hours.inventory_us as double) / 3.6e9 as inventory_hours,
        device_hours.energy_joules / 3.6e6 as energy_kwh,
        billed.cost as billed_cost,
        billed.currency as billed_currency,
        estimate_rates.cost_per_gpu_hour as estimated_cost_per_hour,
        estimate_rates.currency as estimate_currency,
        estimate_rates.cost_basis as estimate_basis,
        cards.fixed_cost_per_hour,
        cards.cost_per_kwh,
        cards.currency as card_currency,
        cards.cost_basis as card_basis,
        case
            when billed.currency is not null then 'billing'
            when estimate_rates.resource_key is not null then 'estimate'
            when cards.currency is not null then 'rate_card'
            else 'unpriced'
        end as cost_source

    from device_hours
    left join billed
        on
            device_hours.hour_start_at = billed.hour_start_at
            and device_hours.cluster = billed.cluster
            and device_hours.gpu_id = billed.gpu_id
    left join estimate_rates
        on
            device_hours.resource_key = estimate_rates.resource_key
            and device_hours.hour_start_at >= estimate_rates.first_billed_at
            and device_hours.usage_date > estimate_rates.delivered_through_date
    left join cards
        on
            device_hours.hour_start_at = cards.hour_start_at
            and device_hours.cluster = cards.cluster
            and device_hours.gpu_model = cards.gpu_model
            and coalesce(device_hours.provider, '') = coalesce(cards.provider, '')

),

final as (

    select
        hour_start_at,
        usage_date,
        cluster,
        gpu_id,
        gpu_model,
        provider_name,
        cast(
            case cost_source
                when 'billing' then billed_cost
                when 'estimate' then cast(round(estimated_cost_per_hour * inventory_hours, 6) as decimal(18, 6))
                when 'rate_card' then {{ rate_card_cost('inventory_hours', 'energy_kwh') }}
            end as decimal(18, 6)
        ) as cost,
        case cost_source
            when 'billing' then billed_currency
            when 'estimate' then estimate_currency
            when 'rate_card' then card_currency
            else 'unknown'
        end as currency,
        cost_source,
        case cost_source
            when 'billing' then 'resource'
            when 'estimate' then estimate_basis
            when 'rate_card' then card_basis
            else ''
        end as cost_basis,
        cost_source = 'rate_card' and cost_per_kwh is not null and energy_kwh is null as is_energy_left_out

    from joined

)

select * from final
