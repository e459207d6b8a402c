-- Does the bill close?
--
-- The effective cost that a provider billed against what the ledger gave to time, and what is left aside with its reason. Days
-- after the last delivery are estimates and no part of it.
--
-- Answer: {provider_name} billed {effective_cost:,.2f} {currency} from {first_date} to {last_date}: {ledger_cost:,.2f} for time,
-- {left_aside_cost:,.2f} left aside with a reason, {difference:,.2f} unexplained; {closed_days} of {days} days are closed.
select
    provider_name,
    billing_account_id,
    currency,
    min(usage_date) as first_date,
    max(usage_date) as last_date,
    sum(effective_cost) as effective_cost,
    sum(ledger_cost) as ledger_cost,
    sum(non_time_cost) as non_time_cost,
    sum(billed_without_telemetry_cost) as billed_without_telemetry_cost,
    sum(out_of_scope_cost) as out_of_scope_cost,
    sum(non_time_cost + billed_without_telemetry_cost) as left_aside_cost,
    sum(difference) as difference,
    count(*) filter (is_closed) as closed_days,
    count(*) as days
from mart_cost_reconciliation_daily
group by provider_name, billing_account_id, currency
order by effective_cost desc nulls last, provider_name, billing_account_id
