-- The promise of semantics 7: on every day whose bill is complete, what the ledger, the non-time lines and the lines
-- without telemetry hold is the effective cost of the lines in scope, to a cent. A row that does not hold keeps the
-- build from being published: find its lines in `fct_billing_lines` by account and date.

with

reconciliation as (

    select * from {{ ref('mart_cost_reconciliation_daily') }}

),

final as (

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

)

select * from final
