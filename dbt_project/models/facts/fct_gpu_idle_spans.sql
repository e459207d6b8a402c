with

pieces as (

    select * from {{ ref('int_idle_spans_clipped') }}

),

ledger as (

    select * from {{ ref('fct_gpu_ledger_hourly') }}

),

held_hours as (

    select * from {{ ref('int_held_hours') }}

),

-- an hour of a run on a slot costs one amount in one currency, its states share it by time
hour_costs as (

    select
        hour_start_at,
        slot_id,
        run_id,
        max(currency) as currency,
        sum(cost) as cost

    from ledger
    where run_id <> 'unallocated'
    group by hour_start_at, slot_id, run_id

),

hour_costs_per_held_us as (

    select
        hour_costs.hour_start_at,
        hour_costs.slot_id,
        hour_costs.run_id,
        hour_costs.currency,
        cast(hour_costs.cost as double) / nullif(held_hours.held_us, 0) as cost_per_held_us

    from hour_costs
    inner join held_hours
        on
            hour_costs.hour_start_at = held_hours.hour_start_at
            and hour_costs.slot_id = held_hours.slot_id
            and hour_costs.run_id = held_hours.run_id

),

pieces_priced as (

    select
        pieces.*,
        hour_costs_per_held_us.currency,
        pieces.held_us * hour_costs_per_held_us.cost_per_held_us as cost

    from pieces
    left join hour_costs_per_held_us
        on
            pieces.hour_start_at = hour_costs_per_held_us.hour_start_at
            and pieces.slot_id = hour_costs_per_held_us.slot_id
            and pieces.run_id = hour_costs_per_held_us.run_id

),

previous_added as (

    select
        pieces_priced.*,
        lag(ended_at) over (partition by slot_id, run_id order by started_at asc nulls last) as previous_ended_at

    from pieces_priced

),

spans_numbered as (

    select
        previous_added.*,
        sum(case when previous_ended_at = started_at then 0 else 1 end) over (
            partition by slot_id, run_id
            order by started_at asc nulls last
            rows between unbounded preceding and current row
        ) as span_number

    from previous_added

),

stitched as (

    select
        slot_id,
        run_id,
        min(started_at) as started_at,
        max(ended_at) as ended_at,
        max(gpu_id) as gpu_id,
        max(cluster) as cluster,
        max(workload_id) as workload_id,
        cast(sum(idle_minutes) as bigint) as idle_minutes,
        sum(memory_byte_minutes) / nullif(sum(memory_minutes), 0) as memory_held_bytes,
        sum(cost) as cost,
        min(currency) as currency,
        -- amounts of two currencies are not added, and an hour without a price leaves no whole amount
        count(distinct currency) = 1 and count(cost) = count(*) as is_priced

    from spans_numbered
    group by slot_id, run_id, span_number

),

final as (

    select
        slot_id,
        run_id,
        started_at,
        gpu_id,
        cluster,
        workload_id,
        ended_at,
        idle_minutes,
        cast(round(memory_held_bytes) as bigint) as memory_held_bytes,
        case when is_priced then cast(cost as decimal(18, 6)) end as cost,
        case when is_priced then currency else 'unknown' end as currency

    from stitched
    where idle_minutes >= {{ var('idle_span_minutes') }}

)

select * from final
