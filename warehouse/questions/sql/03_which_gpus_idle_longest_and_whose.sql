-- Which GPUs idle longest, and whose are they?
--
-- Held time without activity, by GPU over the last seven days, with the workload that idled most on it. GPUs that nobody held
-- are not idle, they are unallocated.
--
-- Answer: GPU {gpu_id} on {node} ({cluster}) idled {idle_hours:,.1f} of the {held_hours:,.1f} hours it was held, mostly by
-- {workload} of team {team}: {idle_cost:,.2f} {currency}.
with

days as (

    select max(usage_date) - 6 as first_date, max(usage_date) as last_date from mart_gpu_idle_time_daily

),

gpus as (

    select
        gpu_id,
        cluster,
        node,
        currency,
        sum(held_hours) as held_hours,
        sum(idle_hours) as idle_hours,
        max(longest_idle_minutes) as longest_idle_minutes_in_a_day,
        sum(idle_cost) as idle_cost
    from mart_gpu_idle_time_daily
    inner join days on usage_date between first_date and last_date
    group by all

),

-- spans are whole: the part of them inside of these days counts
idle_minutes as (

    select
        gpu_id,
        workload_id,
        sum(date_diff('minute', greatest(started_at, first_date), least(ended_at, last_date + interval 1 day))) as idle_minutes
    from fct_gpu_idle_spans
    inner join days on ended_at > first_date and started_at < last_date + interval 1 day
    group by all

),

holders as (

    select gpu_id, workload_id
    from idle_minutes
    qualify row_number() over (partition by gpu_id order by idle_minutes desc nulls last, workload_id) = 1

)

select
    gpu_id,
    gpus.cluster,
    node,
    held_hours,
    idle_hours,
    longest_idle_minutes_in_a_day,
    coalesce(workload, 'nobody for five minutes') as workload,
    coalesce(team, 'unknown') as team,
    idle_cost,
    currency
from gpus
left join holders using (gpu_id)
left join dim_workloads using (workload_id)
where idle_hours > 0
order by idle_hours desc nulls last, gpu_id
limit 10
