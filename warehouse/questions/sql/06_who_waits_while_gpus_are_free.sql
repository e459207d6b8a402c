-- Who waits while GPUs are free?
--
-- Hours of the last seven days in which runs waited in a queue while GPUs of its nodes were free; the smaller of the two is what
-- could have run at once, GPU for GPU. Queues that share nodes count the same GPUs: do not add them up.
--
-- Answer: In queue {queue} of {cluster} runs waited {waiting_gpu_hours:,.1f} GPU-hours, and in {hours_with_both} hours GPUs were free
-- at the same time: {could_have_run_gpu_hours:,.1f} GPU-hours of it could have run.
with

days as (

    select max(usage_date) - 6 as first_date, max(usage_date) as last_date from mart_queue_pressure_hourly

)

select
    cluster,
    queue,
    sum(waiting_gpu_hours) as waiting_gpu_hours,
    sum(free_gpu_hours) as free_gpu_hours,
    count(*) filter (waiting_gpu_hours > 0 and free_gpu_hours > 0) as hours_with_both,
    sum(least(waiting_gpu_hours, free_gpu_hours)) filter (waiting_gpu_hours > 0 and free_gpu_hours > 0) as could_have_run_gpu_hours,
    max(wait_p95_seconds) / 3600 as longest_p95_wait_hours
from mart_queue_pressure_hourly
inner join days on usage_date between first_date and last_date
group by cluster, queue
having sum(waiting_gpu_hours) > 0
order by could_have_run_gpu_hours desc nulls last, cluster, queue
