-- What does a million tokens cost per model, and how does that compare?
--
-- Prompt and output tokens of the last seven days. On what was held, and on the productive part of it alone: the difference is
-- what ghosts add to the price. Beside them the list price of the same or a comparable model, where one is configured.
--
-- Answer: A million tokens of {model} ({workload}) cost {cost_per_million:,.4f} {currency}, {times_the_used:,.2f} times what they
-- would if every GPU-hour held were productive; {million_tokens:,.0f} million were served.
with

days as (

    select max(usage_date) - 6 as first_date, max(usage_date) as last_date from mart_unit_economics_daily

),

models as (

    select
        workload_id,
        model,
        currency,
        sum(tokens_all) as tokens,
        sum(cost_per_million_tokens * tokens_all) as cost_of_millions,
        sum(usage_cost_per_million_tokens * tokens_all) as used_cost_of_millions,
        sum(list_cost_per_million_tokens * tokens_all) as list_cost_of_millions
    from mart_unit_economics_daily
    inner join days on usage_date between first_date and last_date
    where cost_per_million_tokens is not null
    group by all

)

select
    models.model,
    workload,
    models.currency,
    tokens / 1e6 as million_tokens,
    cost_of_millions / nullif(tokens, 0) as cost_per_million,
    used_cost_of_millions / nullif(tokens, 0) as used_cost_per_million,
    cost_of_millions / nullif(used_cost_of_millions, 0) as times_the_used,
    list_cost_of_millions / nullif(tokens, 0) as list_cost_per_million
from models
inner join dim_workloads using (workload_id)
order by times_the_used desc nulls last, workload, models.model
