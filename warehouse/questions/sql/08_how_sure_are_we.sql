-- How sure are we?
--
-- GPU Net of the last seven days as an interval: held time that no usable sample covers counts as not productive at its low end
-- and as productive at its high end. Below 95 % of coverage only the interval is said.
--
-- Answer: Least sure is {cluster}: {coverage:.1%} of its held time was observed, GPU Net lies between {net_low:.1%} and
-- {net_high:.1%}.
with

days as (

    select max(usage_date) - 6 as first_date, max(usage_date) as last_date from mart_gpu_net_daily

),

clusters as (

    select
        cluster,
        sum(capacity_gpu_hours) - sum(out_of_service_gpu_hours) as in_service_gpu_hours,
        sum(held_gpu_hours) as held_gpu_hours,
        sum(unobserved_gpu_hours) as unobserved_gpu_hours,
        sum(productive_gpu_hours) as productive_gpu_hours
    from mart_gpu_net_daily
    inner join days on usage_date between first_date and last_date
    group by cluster

)

select
    cluster,
    held_gpu_hours,
    unobserved_gpu_hours,
    1 - unobserved_gpu_hours / nullif(held_gpu_hours, 0) as coverage,
    productive_gpu_hours / nullif(in_service_gpu_hours, 0) as net_low,
    (productive_gpu_hours + unobserved_gpu_hours) / nullif(in_service_gpu_hours, 0) as net_high
from clusters
where held_gpu_hours > 0
order by coverage nulls last, cluster
