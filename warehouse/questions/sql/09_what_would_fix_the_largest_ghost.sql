-- What would fix the largest ghost?
--
-- The largest ghost of most fleets is time that nobody holds. GPUs of a cluster and model that were free in every hour of the last
-- seven days can be given back, lent or filled without anyone noticing; what they cost is what that is worth. The mail and the
-- report say for each other ghost what one would do.
--
-- Answer: In {cluster}, {always_free_gpus:.0f} of {gpus} {gpu_model} were free in every one of {hours} hours: giving them back or filling
-- them saves {weekly_cost:,.2f} {currency} a week of the {unallocated_cost:,.2f} that nobody's time cost.
with

days as (

    select max(usage_date) - 6 as first_date, max(usage_date) as last_date from fct_gpu_ledger_hourly

),

-- an hour in which nothing was free has no row of its own: the pieces of all states are summed
free_hours as (

    select
        hour_start_at,
        cluster,
        gpu_model,
        currency,
        count(distinct gpu_id) as gpus,
        sum(case when state = 'unallocated' and state_reason = 'free' then gpu_hours else 0 end) as free_gpu_hours,
        sum(case when state = 'unallocated' then cost end) as unallocated_cost,
        sum(cost) / nullif(sum(gpu_hours), 0) as cost_per_gpu_hour
    from fct_gpu_ledger_hourly
    inner join days on usage_date between first_date and last_date
    group by all

)

select
    cluster,
    gpu_model,
    max(gpus) as gpus,
    count(*) as hours,
    floor(min(free_gpu_hours)) as always_free_gpus,
    floor(min(free_gpu_hours)) * sum(cost_per_gpu_hour) as weekly_cost,
    sum(unallocated_cost) as unallocated_cost,
    currency
from free_hours
group by cluster, gpu_model, currency
having sum(free_gpu_hours) > 0
order by weekly_cost desc nulls last, unallocated_cost desc nulls last, cluster, gpu_model
