{{ config(
    materialized='incremental', incremental_strategy='replace_days', meta={'days': 'priced'},
    on_schema_change='append_new_columns'
) }}

-- What the ledger holds of each account's bill: the ledger's own cost per device-hour, traced back to the accounts
-- whose charges it came from. What a device-hour's ledger rows hold more or less than its charges stays with its
-- largest charge, so that a fault of the ledger shows as a difference of that account. Amounts in a second currency,
-- which no ledger row carries, are told apart.

with

ledger as (

    select * from {{ ref('fct_gpu_ledger_hourly') }}
    where cost_source = 'billing' and {{ in_priced_days('usage_date') }}

),

charges as (

    select * from {{ ref('int_device_hour_billing_costs') }}
    where {{ in_priced_days('usage_date') }}

),

ledger_device_hours as (

    select
        hour_start_at,
        usage_date,
        cluster,
        gpu_id,
        currency,
        sum(cost) as ledger_cost

    from ledger
    group by hour_start_at, usage_date, cluster, gpu_id, currency

),

charges_ranked as (

    select
        charges.*,
        sum(cost) over (partition by hour_start_at, cluster, gpu_id, currency) as device_hour_cost,
        row_number() over (
            partition by hour_start_at, cluster, gpu_id, currency
            order by
                abs(cost) desc nulls last, provider_name nulls last, billing_account_id nulls last, resource_key nulls last
        ) as charge_rank

    from charges

),

traced as (

    select
        coalesce(charges_ranked.usage_date, ledger_device_hours.usage_date) as usage_date,
        coalesce(charges_ranked.provider_name, 'unknown') as provider_name,
        coalesce(charges_ranked.billing_account_id, 'unknown') as billing_account_id,
        coalesce(charges_ranked.currency, ledger_device_hours.currency) as currency,
        coalesce(charges_ranked.resource_key, 'unknown') as resource_key,
        case
            when charges_ranked.charge_rank is null then ledger_device_hours.ledger_cost
            when not charges_ranked.is_in_ledger then coalesce(ledger_device_hours.ledger_cost, 0)
            when ledger_device_hours.currency is null then 0
            when charges_ranked.charge_rank = 1
                then charges_ranked.cost + ledger_device_hours.ledger_cost - charges_ranked.device_hour_cost
            else charges_ranked.cost
        end as ledger_cost,
        case when charges_ranked.is_in_ledger = false then charges_ranked.cost else 0 end as second_currency_cost

    from charges_ranked
    full outer join ledger_device_hours
        on
            charges_ranked.hour_start_at = ledger_device_hours.hour_start_at
            and charges_ranked.cluster = ledger_device_hours.cluster
            and charges_ranked.gpu_id = ledger_device_hours.gpu_id
            and charges_ranked.currency = ledger_device_hours.currency

),

final as (

    select
        usage_date,
        provider_name,
        billing_account_id,
        currency,
        resource_key,
        cast(sum(ledger_cost) as decimal(38, 6)) as ledger_cost,
        cast(sum(second_currency_cost) as decimal(38, 6)) as second_currency_cost

    from traced
    group by usage_date, provider_name, billing_account_id, currency, resource_key

)

select * from final
