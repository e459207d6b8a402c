-- Why is this workload slow?
--
-- Where each hour of a workload stood in the last seven days: bottlenecked (and by what), productive, underused or unobserved. The
-- workload with the most bottlenecked hours is the one in the answer; add a `where` for yours.
--
-- Answer: {workload} ({cluster}) was short of something in {bottlenecked_hours} of {hours} hours: {reason_words}. In these hours
-- the 95th percentile of its latency was {latency_p95_seconds:,.2f} s at worst (target {latency_target_p95_seconds:,.2f} s), and up
-- to {waiting_requests:,.1f} requests waited.
with

days as (

    select max(usage_date) - 6 as first_date, max(usage_date) as last_date from mart_workload_spectrum_hourly

),

hours as (

    select
        workload_id,
        count(*) as hours,
        count(*) filter (spectrum = 'bottlenecked') as bottlenecked_hours,
        count(*) filter (is_latency_missed) as latency_missed_hours,
        count(*) filter (is_queue_growing) as queue_growing_hours,
        max(latency_p95_seconds) filter (spectrum = 'bottlenecked') as latency_p95_seconds,
        max(waiting_requests_last_mean) filter (spectrum = 'bottlenecked') as waiting_requests
    from mart_workload_spectrum_hourly
    inner join days on usage_date between first_date and last_date
    group by workload_id

),

reasons as (

    select workload_id, bottleneck_reason, count(*) as hours
    from mart_workload_spectrum_hourly
    inner join days on usage_date between first_date and last_date
    where spectrum = 'bottlenecked'
    group by workload_id, bottleneck_reason
    qualify row_number() over (partition by workload_id order by count(*) desc nulls last, bottleneck_reason) = 1

)

select
    workload,
    dim_workloads.cluster,
    team,
    hours.hours,
    bottlenecked_hours,
    bottleneck_reason,
    case bottleneck_reason
        when 'unknown' then 'its GPU, memory and host had room, so look in the server: batching, limits on concurrency, a lock'
        else 'mostly ' || replace(bottleneck_reason, '_', ' ')
    end as reason_words,
    latency_missed_hours,
    queue_growing_hours,
    hours.latency_p95_seconds,
    latency_target_p95_seconds,
    waiting_requests
from hours
inner join reasons using (workload_id)
inner join dim_workloads using (workload_id)
where bottlenecked_hours > 0
order by bottlenecked_hours desc nulls last, workload, dim_workloads.cluster
