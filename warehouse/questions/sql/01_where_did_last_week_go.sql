-- Where did last week go?
--
-- Every GPU-hour of the last seven days is in one state; shares are of the capacity. Money in two currencies is two rows.
--
-- Answer: Of {capacity_gpu_hours:,.1f} GPU-hours from {first_date} to {last_date}, {productive_gpu_hours:,.1f} were productive; the
-- largest ghost was {label} with {gpu_hours:,.1f} ({share:.1%}), {cost:,.2f} {currency}.
with

days as (

    select max(usage_date) - 6 as first_date, max(usage_date) as last_date from mart_ghost_capacity_daily

),

states as (

    select
        first_date,
        last_date,
        state,
        currency,
        sum(gpu_hours) as gpu_hours,
        sum(cost) as cost
    from mart_ghost_capacity_daily
    inner join days on usage_date between first_date and last_date
    group by all

)

select
    first_date,
    last_date,
    label,
    dim_states.is_ghost,
    gpu_hours,
    gpu_hours / nullif(sum(gpu_hours) over (), 0) as share,
    cost,
    currency,
    sum(gpu_hours) over () as capacity_gpu_hours,
    sum(case when state = 'productive' then gpu_hours else 0 end) over () as productive_gpu_hours
from states
inner join dim_states using (state)
order by is_ghost desc nulls last, gpu_hours desc nulls last, cost desc nulls last, label
