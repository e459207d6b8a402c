{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

with

waits as (

    select * from {{ ref('int_queue_waits_hourly') }}
    where {{ in_touched_days('usage_date') }}

),

queue_nodes as (

    select * from {{ ref('int_queue_nodes') }}
    where {{ in_touched_days('usage_date') }}

),

ledger as (

    select
        usage_date,
        hour_start_at,
        cluster,
        node,
        sum(gpu_microseconds) as capacity_us,
        sum(case when state = 'out_of_service' then gpu_microseconds else 0 end) as out_of_service_us,
        sum(case when state = 'unallocated' then gpu_microseconds else 0 end) as unallocated_us,
        sum(case when state = 'unallocated' and state_reason = 'free' then gpu_microseconds else 0 end) as free_us,
        sum(case when state = 'unallocated' and state_reason = 'stranded' then gpu_microseconds else 0 end) as stranded_us,
        sum(case when state = 'unallocated' and state_reason = 'draining' then gpu_microseconds else 0 end) as draining_us,
        sum(
            case when state = 'unallocated' and state_reason = 'reserved_empty' then gpu_microseconds else 0 end
        ) as reserved_empty_us,
        sum(
            case when state = 'unallocated' and state_reason = 'unrequested_share' then gpu_microseconds else 0 end
        ) as unrequested_share_us

    from {{ ref('fct_gpu_ledger_hourly') }}
    where {{ in_touched_days('usage_date') }}
    group by usage_date, hour_start_at, cluster, node

),

-- a node in two partitions is there for the jobs of both
capacity as (

    select
        ledger.hour_start_at,
        ledger.cluster,
        queue_nodes.queue,
        cast(sum(ledger.capacity_us) as double) / 3.6e9 as capacity_gpu_hours,
        cast(sum(ledger.out_of_service_us) as double) / 3.6e9 as out_of_service_gpu_hours,
        cast(sum(ledger.unallocated_us) as double) / 3.6e9 as unallocated_gpu_hours,
        cast(sum(ledger.free_us) as double) / 3.6e9 as free_gpu_hours,
        cast(sum(ledger.stranded_us) as double) / 3.6e9 as stranded_gpu_hours,
        cast(sum(ledger.draining_us) as double) / 3.6e9 as draining_gpu_hours,
        cast(sum(ledger.reserved_empty_us) as double) / 3.6e9 as reserved_empty_gpu_hours,
        cast(sum(ledger.unrequested_share_us) as double) / 3.6e9 as unrequested_share_gpu_hours

    from ledger
    inner join queue_nodes
        on
            ledger.cluster = queue_nodes.cluster
            and ledger.node = queue_nodes.node
            and ledger.usage_date = queue_nodes.usage_date
    group by ledger.hour_start_at, ledger.cluster, queue_nodes.queue

),

joined as (

    select
        waits.usage_date,
        waits.hour_start_at,
        waits.cluster,
        waits.queue,
        cast(greatest(waits.known_us, 0) as double) / 3.6e9 as known_hours,
        waits.waiting_run_count,
        waits.waiting_us / 3.6e9 as waiting_gpu_hours,
        waits.waiting_gpu_count_max,
        waits.started_run_count,
        waits.wait_p50_seconds,
        waits.wait_p95_seconds,
        coalesce(capacity.capacity_gpu_hours, 0.0) as capacity_gpu_hours,
        coalesce(capacity.out_of_service_gpu_hours, 0.0) as out_of_service_gpu_hours,
        coalesce(capacity.unallocated_gpu_hours, 0.0) as unallocated_gpu_hours,
        coalesce(capacity.free_gpu_hours, 0.0) as free_gpu_hours,
        coalesce(capacity.stranded_gpu_hours, 0.0) as stranded_gpu_hours,
        coalesce(capacity.draining_gpu_hours, 0.0) as draining_gpu_hours,
        coalesce(capacity.reserved_empty_gpu_hours, 0.0) as reserved_empty_gpu_hours,
        coalesce(capacity.unrequested_share_gpu_hours, 0.0) as unrequested_share_gpu_hours

    from waits
    left join capacity
        on
            waits.hour_start_at = capacity.hour_start_at
            and waits.cluster = capacity.cluster
            and waits.queue = capacity.queue

),

final as (

    select
        usage_date,
        hour_start_at,
        cluster,
        queue,
        cast(known_hours as double) as known_hours,
        cast(waiting_run_count as bigint) as waiting_run_count,
        cast(waiting_gpu_hours as double) as waiting_gpu_hours,
        cast(waiting_gpu_hours / nullif(known_hours, 0) as double) as waiting_gpu_count_mean,
        cast(waiting_gpu_count_max as double) as waiting_gpu_count_max,
        cast(started_run_count as bigint) as started_run_count,
        cast(wait_p50_seconds as double) as wait_p50_seconds,
        cast(wait_p95_seconds as double) as wait_p95_seconds,
        capacity_gpu_hours,
        out_of_service_gpu_hours,
        unallocated_gpu_hours,
        cast(unallocated_gpu_hours / nullif(known_hours, 0) as double) as unallocated_gpu_count_mean,
        free_gpu_hours,
        stranded_gpu_hours,
        draining_gpu_hours,
        reserved_empty_gpu_hours,
        unrequested_share_gpu_hours

    from joined

)

select * from final
