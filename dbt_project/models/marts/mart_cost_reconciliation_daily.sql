-- Does every unit of money on a bill in scope stand in exactly one line? The bill's side comes from the lines, the
-- ledger's from the ledger. A plain table: a line that comes into scope later (its device was landed since) changes
-- days that nothing else touches.

with

lines as (

    select * from {{ ref('fct_billing_lines') }}

),

charge_days as (

    select * from {{ ref('int_billing_charge_days') }}

),

ledger_days as (

    select * from {{ ref('int_ledger_billing_costs_daily') }}

),

delivered_through as (

    select * from {{ ref('int_billing_delivered_through') }}

),

-- lines of the invoice view, and those out of scope, stand whole on the day their charge period begins
invoice_days as (

    select
        cast(charge_period_start as date) as usage_date,
        provider_name,
        billing_account_id,
        billing_currency as currency,
        case when line_role = 'out_of_scope' then 0 else billed_cost end as billed_cost,
        0 as effective_cost,
        0 as ledger_cost,
        0 as non_time_cost,
        0 as billed_without_telemetry_cost,
        case when line_role = 'out_of_scope' then effective_cost else 0 end as out_of_scope_cost

    from lines
    where line_role in ('tax', 'support', 'commitment_purchase', 'out_of_scope')

),

bill_days as (

    select
        usage_date,
        provider_name,
        billing_account_id,
        currency,
        billed_cost,
        effective_cost,
        0 as ledger_cost,
        non_time_cost,
        billed_without_telemetry_cost,
        0 as out_of_scope_cost

    from charge_days

),

measured_days as (

    select
        usage_date,
        provider_name,
        billing_account_id,
        currency,
        0 as billed_cost,
        0 as effective_cost,
        ledger_cost,
        second_currency_cost as non_time_cost,
        0 as billed_without_telemetry_cost,
        0 as out_of_scope_cost

    from ledger_days

),

all_days as (

    select * from invoice_days
    union all
    select * from bill_days
    union all
    select * from measured_days

),

added as (

    select
        usage_date,
        provider_name,
        billing_account_id,
        currency,
        sum(billed_cost) as billed_cost,
        sum(effective_cost) as effective_cost,
        sum(ledger_cost) as ledger_cost,
        sum(non_time_cost) as non_time_cost,
        sum(billed_without_telemetry_cost) as billed_without_telemetry_cost,
        sum(out_of_scope_cost) as out_of_scope_cost

    from all_days
    group by usage_date, provider_name, billing_account_id, currency

),

final as (

    select
        added.usage_date,
        added.provider_name,
        added.billing_account_id,
        added.currency,
        cast(added.billed_cost as decimal(18, 6)) as billed_cost,
        cast(added.effective_cost as decimal(18, 6)) as effective_cost,
        cast(added.ledger_cost as decimal(18, 6)) as ledger_cost,
        cast(added.non_time_cost as decimal(18, 6)) as non_time_cost,
        cast(added.billed_without_telemetry_cost as decimal(18, 6)) as billed_without_telemetry_cost,
        cast(added.out_of_scope_cost as decimal(18, 6)) as out_of_scope_cost,
        cast(
            added.effective_cost - added.ledger_cost - added.non_time_cost - added.billed_without_telemetry_cost
            as decimal(18, 6)
        ) as difference,
        coalesce(added.usage_date <= delivered_through.delivered_through_date, false) as is_closed,
        {{ in_reporting_currency('added.billed_cost') }} as billed_cost_reporting,
        {{ in_reporting_currency('added.effective_cost') }} as effective_cost_reporting,
        coalesce(exchange_rates.reporting_currency, 'unknown') as reporting_currency

    from added
    {{ join_exchange_rate('added') }}
    left join delivered_through
        on
            added.provider_name = delivered_through.provider_name
            and added.billing_account_id = delivered_through.billing_account_id

)

select * from final
