-- What each team is charged for a month, and whether bills have closed it: all its days are over, nothing in the row is an
-- estimate or without a price, and every account billed in that currency in the month is delivered through its last day.

with

allocated as (

    select * from {{ ref('int_cost_lines_daily') }}

),

charge_days as (

    select * from {{ ref('int_billing_charge_days') }}

),

delivered_through as (

    select * from {{ ref('int_billing_delivered_through') }}

),

last_day as (

    select max(usage_date) as usage_date
    from allocated

),

account_months as (

    select distinct
        cast(date_trunc('month', charge_days.usage_date) as date) as month_start_date,
        charge_days.currency,
        charge_days.provider_name,
        charge_days.billing_account_id,
        delivered_through.delivered_through_date as closed_through_date

    from charge_days
    left join delivered_through
        on
            charge_days.provider_name = delivered_through.provider_name
            and charge_days.billing_account_id = delivered_through.billing_account_id

),

currency_months as (

    select
        month_start_date,
        currency,
        min(coalesce(closed_through_date, date '1970-01-01')) as closed_through_date

    from account_months
    group by month_start_date, currency

),

added as (

    select
        cast(date_trunc('month', usage_date) as date) as month_start_date,
        team,
        cost_line,
        currency,
        sum(gpu_hours) as gpu_hours,
        sum(held_gpu_hours) as held_gpu_hours,
        sum(priced_gpu_hours) as priced_gpu_hours,
        sum(cost) as cost,
        sum(allocation_cost) as allocation_cost,
        sum(usage_cost) as usage_cost,
        sum(fully_loaded_cost) as fully_loaded_cost,
        {% for amount in ['cost', 'allocation_cost', 'usage_cost', 'fully_loaded_cost'] %}
        -- without a rate for one of its days a month's money is not known in another currency
        case when count({{ amount }}) = count({{ amount }}_reporting) then sum({{ amount }}_reporting) end as {{ amount }}_reporting,
        {% endfor %}
        case when bool_or(reporting_currency = 'unknown') then 'unknown' else max(reporting_currency) end as reporting_currency,
        sum(estimate_cost) as estimate_cost,
        max(coalesce(estimate_cost_ratio, 0)) > 0 as has_estimates

    from allocated
    group by cast(date_trunc('month', usage_date) as date), team, cost_line, currency

),

final as (

    select
        added.month_start_date,
        added.team,
        added.cost_line,
        added.currency,
        added.gpu_hours,
        added.held_gpu_hours,
        added.priced_gpu_hours,
        cast(added.cost as decimal(18, 6)) as cost,
        cast(added.allocation_cost as decimal(18, 6)) as allocation_cost,
        cast(added.usage_cost as decimal(18, 6)) as usage_cost,
        cast(added.fully_loaded_cost as decimal(18, 6)) as fully_loaded_cost,
        {% for amount in ['cost', 'allocation_cost', 'usage_cost', 'fully_loaded_cost'] %}
        cast(added.{{ amount }}_reporting as decimal(18, 6)) as {{ amount }}_reporting,
        {% endfor %}
        added.reporting_currency,
        cast(added.estimate_cost as decimal(18, 6)) as estimate_cost,
        last_day.usage_date >= cast(added.month_start_date + interval 1 month as date)
        and added.currency <> 'unknown'
        and not added.has_estimates
        and coalesce(
            currency_months.closed_through_date >= cast(added.month_start_date + interval 1 month - interval 1 day as date), true
        ) as is_closed

    from added
    cross join last_day
    left join currency_months
        on added.month_start_date = currency_months.month_start_date and added.currency = currency_months.currency

)

select * from final
