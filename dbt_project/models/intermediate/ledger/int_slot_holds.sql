-- Who held which slot when, with which share, cut by day: exact holds and what the node pools were given. A run that is
-- not known to end holds no longer than the build's window.

with

exact as (

    select * from {{ ref('int_holds_exact') }}

),

pool as (

    select * from {{ ref('int_pool_stretches') }}

),

layouts as (

    select * from {{ ref('int_gpu_layouts') }}

),

provisional_runs as (

    select run_id from {{ ref('int_runs') }}
    where is_provisional

),

exact_days as (

    select
        exact.*,
        {{ each_touched('day', 'exact.started_at', 'exact.ended_at') }} as day_start_at

    from exact

),

exact_in_days as (

    select
        cluster,
        node,
        gpu_id,
        slot_id,
        run_id,
        cast(day_start_at as date) as usage_date,
        greatest(started_at, day_start_at) as started_at,
        least(ended_at, day_start_at + interval 1 day) as ended_at,
        coalesce(share_ratio, 1.0) as share,
        share_ratio is not null as is_shared,
        false as is_implied,
        assignment_method,
        flag

    from exact_days
    where {{ in_ledger_days('cast(day_start_at as date)') }}

),

-- a partitioned device that a pool gives counts as one, with all its slots but the stranded one
pool_on_slots as (

    select
        pool.cluster,
        pool.node,
        pool.gpu_id,
        coalesce(layouts.slot_id, pool.gpu_id) as slot_id,
        pool.run_id,
        cast(pool.hour_start_at as date) as usage_date,
        case
            when layouts.slot_id is null then pool.started_at
            else greatest(pool.started_at, layouts.valid_from_at)
        end as started_at,
        case
            when layouts.slot_id is null then pool.ended_at
            else least(pool.ended_at, layouts.valid_until_at)
        end as ended_at,
        pool.share,
        pool.is_shared,
        pool.is_implied,
        pool.assignment_method,
        case when pool.is_over_allocated then 'over_allocated' else '' end as flag

    from pool
    left join layouts
        on
            pool.cluster = layouts.cluster
            and pool.gpu_id = layouts.gpu_id
            and (pool.slot_id is null or pool.slot_id = layouts.slot_id)
            and not layouts.is_stranded
            and pool.started_at < layouts.valid_until_at
            and pool.ended_at > layouts.valid_from_at

),

holds as (

    select * from exact_in_days
    union all
    select * from pool_on_slots

),

in_window as (

    select
        holds.cluster,
        holds.node,
        holds.gpu_id,
        holds.slot_id,
        holds.run_id,
        holds.usage_date,
        holds.started_at,
        case
            when provisional_runs.run_id is null then holds.ended_at
            else least(holds.ended_at, {{ window_end(of_provisional=true) }})
        end as ended_at,
        holds.share,
        holds.is_shared,
        holds.is_implied,
        holds.assignment_method,
        holds.flag

    from holds
    left join provisional_runs on holds.run_id = provisional_runs.run_id

)

select * from in_window
where started_at < ended_at
