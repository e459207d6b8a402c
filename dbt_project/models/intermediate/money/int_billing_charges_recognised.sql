-- The lines in scope that carry effective cost, those with one resource, period and role added up before anything is
-- rounded. Of a charge that reaches beyond the last instant of telemetry only the elapsed part is recognised: the
-- rest of a month's bill belongs to days nobody has seen yet (semantics 7).

with

lines as (

    select * from {{ ref('int_billing_lines_classified') }}

),

inventory as (

    select * from {{ ref('int_gpu_inventory_changes') }}

),

data_through as (

    select
        cluster,
        max(data_through_at) as telemetry_through_at

    from {{ source('control', 'data_through') }}
    where table_group = 'telemetry'
    group by cluster

),

-- not the end of the build's window: days outside it stand as they were built, and their charges with them
ends as (

    select max(telemetry_through_at) as telemetry_through_at
    from data_through

),

resource_clusters as (

    select distinct
        {{ resource_key('provider_resource_id') }} as resource_key,
        cluster

    from inventory
    where trim(provider_resource_id) <> ''

),

resource_ends as (

    select
        resource_clusters.resource_key,
        max(data_through.telemetry_through_at) as telemetry_through_at

    from resource_clusters
    inner join data_through on resource_clusters.cluster = data_through.cluster
    group by resource_clusters.resource_key

),

-- a charge without a length is one of its first instant
charges as (

    select
        charge_id,
        line_role,
        provider_name,
        billing_account_id,
        billing_currency as currency,
        resource_key,
        charge_period_start as starts_at,
        greatest(charge_period_end, charge_period_start + interval 1 microsecond) as ends_at,
        max(coalesce(sku_id, resource_type)) as sku_key,
        sum(effective_cost) as effective_cost,
        sum(billed_cost) as billed_cost

    from lines
    where charge_id is not null
    group by
        charge_id, line_role, provider_name, billing_account_id, billing_currency, resource_key, charge_period_start,
        charge_period_end

),

clipped as (

    select
        charges.*,
        greatest(
            charges.starts_at,
            least(
                charges.ends_at,
                coalesce(resource_ends.telemetry_through_at, ends.telemetry_through_at, charges.ends_at)
            )
        ) as recognised_until_at

    from charges
    cross join ends
    left join resource_ends on charges.resource_key = resource_ends.resource_key

),

elapsed as (

    select
        clipped.*,
        cast({{ microseconds_between('starts_at', 'recognised_until_at') }} as double)
        / nullif({{ microseconds_between('starts_at', 'ends_at') }}, 0) as elapsed_ratio

    from clipped

),

recognised as (

    select
        charge_id,
        line_role,
        provider_name,
        billing_account_id,
        currency,
        resource_key,
        sku_key,
        starts_at,
        recognised_until_at as ends_at,
        elapsed_ratio,
        case
            when elapsed_ratio = 1 then cast(effective_cost as decimal(38, 12))
            else cast(round(cast(effective_cost as double) * elapsed_ratio, 12) as decimal(38, 12))
        end as effective_cost,
        case
            when elapsed_ratio = 1 then cast(billed_cost as decimal(38, 12))
            else cast(round(cast(billed_cost as double) * elapsed_ratio, 12) as decimal(38, 12))
        end as billed_cost

    from elapsed
    where elapsed_ratio > 0

)

select * from recognised
