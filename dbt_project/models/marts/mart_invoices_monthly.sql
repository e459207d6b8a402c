-- What each billing period's invoice comes to, by the lines that stand, and when they were delivered. A correction of
-- October that came with November's bill is here in November, while October's unit costs are restated by it: the two
-- time axes of semantics 7, side by side. A plain table: a period is small and any delivery may change it.

with

lines as (

    select * from {{ ref('fct_billing_lines') }}

),

marked as (

    select
        lines.*,
        line_role <> 'out_of_scope' as is_in_scope,
        charge_period_start < billing_period_start or lower(coalesce(charge_class, '')) = 'correction' as is_correction

    from lines

),

final as (

    select
        billing_period_start,
        provider_name,
        billing_account_id,
        billing_currency as currency,
        max(billing_period_end) as billing_period_end,
        cast(sum(billed_cost) as decimal(18, 6)) as invoiced_cost,
        cast(sum(case when is_in_scope then billed_cost else 0 end) as decimal(18, 6)) as billed_cost,
        cast(
            sum(case when is_in_scope and is_correction then billed_cost else 0 end) as decimal(18, 6)
        ) as correction_billed_cost,
        cast(
            sum(case when is_in_scope and is_correction then effective_cost else 0 end) as decimal(18, 6)
        ) as correction_effective_cost,
        count(*) as line_count,
        count(distinct delivery_id) as delivery_count,
        max(delivered_at) as last_delivered_at

    from marked
    group by billing_period_start, provider_name, billing_account_id, billing_currency

)

select * from final
