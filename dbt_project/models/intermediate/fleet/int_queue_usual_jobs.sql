-- What a GPU job of a partition usually takes per GPU, by day: the medians over the GPU runs that held in it on that day.

with

runs as (

    select * from {{ ref('int_runs_named') }}
    where gpu_count > 0 and held_from_at < held_until_at

),

-- a run that the scheduler never closed is over where the next holder of its devices begins
runaways as (

    select
        run_id,
        max(ended_at) as ended_at

    from {{ ref('int_holds_exact') }}
    where flag = 'runaway'
    group by run_id

),

holding_runs as (

    select
        runs.*,
        least(runs.held_until_at, coalesce(runaways.ended_at, runs.held_until_at)) as holds_until_at

    from runs
    left join runaways on runs.run_id = runaways.run_id

),

run_days as (

    select
        cluster,
        queue,
        cast({{ each_touched('day', 'held_from_at', 'holds_until_at') }} as date) as usage_date,
        cast(cpu_count as double) / gpu_count as cpus_per_gpu,
        cast(memory_bytes as double) / gpu_count as memory_bytes_per_gpu

    from holding_runs

),

usual as (

    select
        cluster,
        queue,
        usage_date,
        percentile_disc(0.5) within group (order by cpus_per_gpu nulls last) as cpu_count,
        percentile_disc(0.5) within group (order by memory_bytes_per_gpu nulls last) as memory_bytes,
        count(*) as run_count

    from run_days
    where {{ in_ledger_days('usage_date') }}
    group by cluster, queue, usage_date

)

select * from usual
where cpu_count is not null or memory_bytes is not null
