{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

-- What the GPUs of each workload did in each hour, as their samples say: the slots it held, weighted by the covered time
-- that it held of them.

with

slot_hours as (

    select * from {{ ref('int_slot_hours_observed') }}
    where {{ in_touched_days('usage_date') }}

),

spans as (

    select * from {{ ref('int_held_spans') }}
    where {{ in_touched_days('usage_date') }}

),

server_memory as (

    select * from {{ ref('int_server_memory_daily') }}
    where {{ in_touched_days('usage_date') }}

),

service_hours as (

    select * from {{ ref('int_service_hours') }}
    where {{ in_touched_days('usage_date') }}

),

span_hours as (

    select
        slot_number,
        run_id,
        workload_id,
        kind,
        started_at,
        ended_at,
        slot_fraction,
        share * slot_fraction * (1.0 - suspended_ratio) as weight,
        {{ each_touched('hour', 'started_at', 'ended_at') }} as hour_start_at

    from spans

),

held_parts as (

    select
        slot_hours.*,
        span_hours.run_id,
        span_hours.workload_id,
        span_hours.kind,
        span_hours.slot_fraction,
        span_hours.weight
            * {{ microseconds_between(
                'greatest(span_hours.started_at, slot_hours.part_start_at)', 'least(span_hours.ended_at, slot_hours.part_end_at)'
            ) }}
            / {{ microseconds_between('slot_hours.part_start_at', 'slot_hours.part_end_at') }} as weight

    from slot_hours
    inner join span_hours
        on
            slot_hours.slot_number = span_hours.slot_number
            and slot_hours.hour_start_at = span_hours.hour_start_at
            and span_hours.started_at < slot_hours.part_end_at
            and span_hours.ended_at > slot_hours.part_start_at

),

-- of a server's memory the part of its KV pool that no request filled is not needed: at the hour's highest use, else the
-- day's
needed_parts as (

    select
        held_parts.*,
        held_parts.memory_bytes * held_parts.weight * held_parts.covered_us as memory_byte_us,
        case when held_parts.memory_bytes is not null then held_parts.weight * held_parts.covered_us end as memory_us,
        case
            when held_parts.memory_bytes is not null and held_parts.kind = 'inference' and server_memory.kv_pool_bytes is null
                then 'preallocated'
        end as memory_needed_null_reason,
        case
            when held_parts.kind <> 'inference' then held_parts.memory_bytes
            when held_parts.memory_bytes is not null and server_memory.kv_pool_bytes is not null
                then
                    greatest(
                        held_parts.memory_bytes
                        - (1.0 - coalesce(service_hours.kv_cache_usage_max, server_memory.peak_kv_cache_usage_ratio))
                        * server_memory.kv_pool_bytes,
                        0.0
                    )
        end as memory_needed_bytes

    from held_parts
    left join server_memory
        on held_parts.usage_date = server_memory.usage_date and held_parts.run_id = server_memory.run_id
    left join service_hours
        on
            held_parts.workload_id = service_hours.workload_id
            and held_parts.hour_start_at = service_hours.hour_start_at

),

ranked as (

    select
        needed_parts.*,
        sum(memory_us) over (
            partition by workload_id, hour_start_at
            order by memory_bytes nulls last
            rows between unbounded preceding and current row
        ) as memory_up_to_us,
        sum(memory_us) over (partition by workload_id, hour_start_at) as memory_all_us

    from needed_parts

),

summed as (

    select
        hour_start_at,
        usage_date,
        workload_id,
        sum(weight * covered_us) as covered_us,
        sum(weight * throttled_us) as throttled_us,
        sum(memory_us) as memory_us,
        sum(memory_byte_us) as memory_byte_us,
        -- the smallest that 95 % of the covered time does not exceed, give or take the rounding of a sum
        min(
            case when memory_up_to_us >= (0.95 - 1e-9) * memory_all_us then memory_bytes end
        ) as memory_p95_bytes,
        max(memory_needed_bytes) as memory_needed_bytes,
        max(memory_needed_bytes / nullif(memory_total_bytes, 0)) as memory_needed_ratio,
        min(memory_needed_null_reason) as memory_needed_null_reason,
        -- a slot's energy is its fraction of the card's already
        sum(weight * energy_joules / slot_fraction) as energy_joules,
        sum(weight * energy_us) as energy_us,
        sum(weight * tensor_active_us) as tensor_active_us,
        sum(weight * tensor_us) as tensor_us,
        sum(weight * dram_active_us) as dram_active_us,
        sum(weight * dram_us) as dram_us,
        sum(weight * sm_clock_mhz_us) as sm_clock_mhz_us,
        sum(weight * sm_clock_us) as sm_clock_us

    from ranked
    group by hour_start_at, usage_date, workload_id

)

select * from summed
