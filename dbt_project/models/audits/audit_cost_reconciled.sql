-- The promise of semantics 7: on every day whose bill is complete, what the ledger, the non-time lines and the lines
-- without telemetry hold is the effective cost of the lines in scope, to a cent. A row that does not hold keeps the
-- build from being published; it names the resources whose money differs and their lines in `fct_billing_lines`.

with

reconciliation as (

    select * from {{ ref('mart_cost_reconciliation_daily') }}

),

charge_days as (

    select * from {{ ref('int_billing_charge_days') }}

),

ledger_days as (

    select * from {{ ref('int_ledger_billing_costs_daily') }}

),

lines as (

    select * from {{ ref('int_billing_lines_classified') }}

),

closed as (

    select
        usage_date,
        provider_name,
        billing_account_id,
        currency,
        effective_cost as promised,
        cast(ledger_cost + non_time_cost + billed_without_telemetry_cost as decimal(18, 6)) as measured,
        difference,
        abs(difference) <= 0.01 as holds

    from reconciliation
    where is_closed

),

broken as (

    select * from closed
    where not holds

),

-- what the ledger should hold of each resource, and what it holds
resource_sides as (

    select
        usage_date,
        provider_name,
        billing_account_id,
        currency,
        resource_key,
        effective_cost - non_time_cost - billed_without_telemetry_cost as cost

    from charge_days

    union all

    select
        usage_date,
        provider_name,
        billing_account_id,
        currency,
        resource_key,
        -(ledger_cost + second_currency_cost) as cost

    from ledger_days

),

resources_apart as (

    select
        broken.usage_date,
        broken.provider_name,
        broken.billing_account_id,
        broken.currency,
        resource_sides.resource_key,
        abs(sum(resource_sides.cost)) as cost

    from broken
    inner join resource_sides
        on
            broken.usage_date = resource_sides.usage_date
            and broken.provider_name = resource_sides.provider_name
            and broken.billing_account_id = resource_sides.billing_account_id
            and broken.currency = resource_sides.currency
    group by
        broken.usage_date, broken.provider_name, broken.billing_account_id, broken.currency, resource_sides.resource_key
    having abs(sum(resource_sides.cost)) > 0.001

),

resources_ranked as (

    select
        resources_apart.*,
        row_number() over (
            partition by usage_date, provider_name, billing_account_id, currency
            order by cost desc nulls last, resource_key nulls last
        ) as resource_rank

    from resources_apart

),

lines_apart as (

    select
        resources_ranked.usage_date,
        resources_ranked.provider_name,
        resources_ranked.billing_account_id,
        resources_ranked.currency,
        lines.line_id,
        row_number() over (
            partition by
                resources_ranked.usage_date, resources_ranked.provider_name, resources_ranked.billing_account_id,
                resources_ranked.currency
            order by resources_ranked.resource_rank nulls last, abs(lines.effective_cost) desc nulls last, lines.line_id nulls last
        ) as line_rank

    from resources_ranked
    inner join charge_days
        on
            resources_ranked.usage_date = charge_days.usage_date
            and resources_ranked.provider_name = charge_days.provider_name
            and resources_ranked.billing_account_id = charge_days.billing_account_id
            and resources_ranked.currency = charge_days.currency
            and resources_ranked.resource_key = charge_days.resource_key
    inner join lines on charge_days.charge_id = lines.charge_id

),

resources_named as (

    select
        usage_date,
        provider_name,
        billing_account_id,
        currency,
        {{ joined_text('resource_key', 'resource_rank') }} as resources_apart

    from resources_ranked
    where resource_rank <= {{ var('lines_named_by_audit') }}
    group by usage_date, provider_name, billing_account_id, currency

),

lines_named as (

    select
        usage_date,
        provider_name,
        billing_account_id,
        currency,
        {{ joined_text('line_id', 'line_rank') }} as line_ids

    from lines_apart
    where line_rank <= {{ var('lines_named_by_audit') }}
    group by usage_date, provider_name, billing_account_id, currency

),

final as (

    select
        closed.usage_date,
        closed.provider_name,
        closed.billing_account_id,
        closed.currency,
        closed.promised,
        closed.measured,
        closed.difference,
        closed.holds,
        coalesce(resources_named.resources_apart, '') as resources_apart,
        coalesce(lines_named.line_ids, '') as line_ids

    from closed
    left join resources_named
        on
            closed.usage_date = resources_named.usage_date
            and closed.provider_name = resources_named.provider_name
            and closed.billing_account_id = resources_named.billing_account_id
            and closed.currency = resources_named.currency
    left join lines_named
        on
            closed.usage_date = lines_named.usage_date
            and closed.provider_name = lines_named.provider_name
            and closed.billing_account_id = lines_named.billing_account_id
            and closed.currency = lines_named.currency

)

select * from final
