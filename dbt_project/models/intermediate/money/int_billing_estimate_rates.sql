-- What a device costs while its bill is on its way: cost per device-hour of the last day on which device-hours of the
-- same resource carry a bill, else of the same SKU. No rate is invented: a resource that was never billed has none.

with

charges as (

    select * from {{ ref('int_billing_charges_recognised') }}
    where line_role = 'capacity' and resource_key is not null

),

costs as (

    select * from {{ ref('int_device_hour_billing_costs') }}
    where is_in_ledger

),

device_hours as (

    select * from {{ ref('int_device_hours') }}

),

delivered_through as (

    select * from {{ ref('int_billing_delivered_through') }}

),

charges_ranked as (

    select
        charges.*,
        min(starts_at) over (partition by resource_key) as first_billed_at,
        row_number() over (
            partition by resource_key
            order by starts_at desc nulls last, sku_key nulls last, provider_name nulls last, billing_account_id nulls last
        ) as charge_rank

    from charges

),

-- the newest charge of a resource says whose bill it is on and what it is
resources as (

    select
        charges_ranked.resource_key,
        charges_ranked.provider_name,
        charges_ranked.billing_account_id,
        charges_ranked.sku_key,
        charges_ranked.first_billed_at,
        delivered_through.delivered_through_date

    from charges_ranked
    left join delivered_through
        on
            charges_ranked.provider_name = delivered_through.provider_name
            and charges_ranked.billing_account_id = delivered_through.billing_account_id
    where charges_ranked.charge_rank = 1

),

resource_days as (

    select
        costs.resource_key,
        max(costs.usage_date) as usage_date

    from costs
    group by costs.resource_key

),

resource_device_hours as (

    select
        costs.resource_key,
        costs.usage_date,
        costs.hour_start_at,
        costs.cluster,
        costs.gpu_id,
        costs.currency,
        sum(costs.cost) as cost

    from costs
    inner join resource_days
        on costs.resource_key = resource_days.resource_key and costs.usage_date = resource_days.usage_date
    group by costs.resource_key, costs.usage_date, costs.hour_start_at, costs.cluster, costs.gpu_id, costs.currency

),

resource_sums as (

    select
        resource_device_hours.resource_key,
        resource_device_hours.usage_date,
        resource_device_hours.currency,
        sum(resource_device_hours.cost) as cost,
        cast(sum(device_hours.inventory_us) as bigint) as billed_us

    from resource_device_hours
    inner join device_hours
        on
            resource_device_hours.hour_start_at = device_hours.hour_start_at
            and resource_device_hours.cluster = device_hours.cluster
            and resource_device_hours.gpu_id = device_hours.gpu_id
    group by resource_device_hours.resource_key, resource_device_hours.usage_date, resource_device_hours.currency

),

resource_rates as (

    select
        resource_sums.*,
        row_number() over (
            partition by resource_key
            order by cost desc nulls last, currency asc nulls last
        ) as currency_rank

    from resource_sums

),

sku_sums as (

    select
        resources.provider_name,
        resources.sku_key,
        resource_sums.usage_date,
        resource_sums.currency,
        sum(resource_sums.cost) as cost,
        cast(sum(resource_sums.billed_us) as bigint) as billed_us

    from resource_sums
    inner join resources on resource_sums.resource_key = resources.resource_key
    where resources.sku_key is not null
    group by resources.provider_name, resources.sku_key, resource_sums.usage_date, resource_sums.currency

),

sku_rates as (

    select
        sku_sums.*,
        row_number() over (
            partition by provider_name, sku_key
            order by usage_date desc nulls last, cost desc nulls last, currency asc nulls last
        ) as sku_rank

    from sku_sums

),

final as (

    select
        resources.resource_key,
        resources.provider_name,
        resources.billing_account_id,
        resources.first_billed_at,
        resources.delivered_through_date,
        coalesce(resource_rates.currency, sku_rates.currency) as currency,
        case
            when resource_rates.currency is not null
                then cast(resource_rates.cost as double) / nullif(resource_rates.billed_us / 3.6e9, 0)
            else cast(sku_rates.cost as double) / nullif(sku_rates.billed_us / 3.6e9, 0)
        end as cost_per_gpu_hour,
        case when resource_rates.currency is not null then 'resource' else 'sku' end as cost_basis,
        coalesce(resource_rates.usage_date, sku_rates.usage_date) as rate_date

    from resources
    left join resource_rates on resources.resource_key = resource_rates.resource_key and resource_rates.currency_rank = 1
    left join sku_rates
        on
            resources.provider_name = sku_rates.provider_name
            and resources.sku_key = sku_rates.sku_key
            and sku_rates.sku_rank = 1

)

select * from final
where cost_per_gpu_hour is not null
