-- How far each account's bills have come: the last date D with a usage line whose charge period ends at or after the
-- end of D. Later days are estimated, and not yet reconciled.

with

lines as (

    select * from {{ ref('int_billing_lines_classified') }}

),

delivered as (

    select
        provider_name,
        billing_account_id,
        max(cast(date_trunc('day', charge_period_end) - interval 1 day as date)) as delivered_through_date

    from lines
    where category = 'usage'
    group by provider_name, billing_account_id

)

select * from delivered
