-- What changed week over week?
--
-- GPU-hours and money of each state in the last seven days against the seven before. `python -m warehouse diff` says the same of
-- two publications, and why.
--
-- Answer: {label} changed most: {change_gpu_hours:+,.1f} GPU-hours to {gpu_hours:,.1f}, {change_cost:+,.2f} {currency}.
with

days as (

    select max(usage_date) as last_date from mart_ghost_capacity_daily

),

weeks as (

    select
        state,
        currency,
        sum(case when usage_date > last_date - 7 then gpu_hours else 0 end) as gpu_hours,
        sum(case when usage_date > last_date - 7 then 0 else gpu_hours end) as gpu_hours_before,
        sum(case when usage_date > last_date - 7 then cost else 0 end) as cost,
        sum(case when usage_date > last_date - 7 then 0 else cost end) as cost_before
    from mart_ghost_capacity_daily
    inner join days on usage_date > last_date - 14
    group by all

)

select
    label,
    dim_states.is_ghost,
    gpu_hours_before,
    gpu_hours,
    gpu_hours - gpu_hours_before as change_gpu_hours,
    cost - cost_before as change_cost,
    currency
from weeks
inner join dim_states using (state)
order by abs(gpu_hours - gpu_hours_before) desc nulls last, label
