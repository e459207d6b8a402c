-- What of a server's memory is an allocated but empty KV cache (semantics 4). Servers take most of the card's memory when
-- they start: what they need is the memory in use less the part of the pool that no request filled at the day's peak. A
-- pool or a peak that is not known leaves the needed memory unknown; it is not 0.

{{ config(materialized='incremental', incremental_strategy='replace_days') }}

with

held as (

    select
        usage_date,
        run_id,
        count(distinct slot_id) as slot_count

    from {{ ref('int_held_spans') }}
    where kind = 'inference' and {{ in_touched_days('usage_date') }}
    group by usage_date, run_id

),

runs as (

    select * from {{ ref('int_runs') }}
    where kind = 'inference'

),

servers_of_runs as (

    select run_id, cluster, 'job ' || job_id as served_by, held_from_at, held_until_at
    from runs
    union all
    select run_id, cluster, 'name ' || name as served_by, held_from_at, held_until_at
    from runs

),

pools as (

    select
        usage_date,
        cluster,
        server,
        -- the job that serves, else the pod of the server's name
        coalesce('job ' || job_id, 'name ' || regexp_replace(server, ':[0-9]+$', '')) as served_by,
        interval_start_at,
        interval_end_at,
        kv_cache_total_bytes,
        kv_cache_usage_ratio

    from {{ ref('int_inference_usage_owned') }}
    where
        (kv_cache_total_bytes is not null or kv_cache_usage_ratio is not null)
        and {{ in_touched_days('usage_date') }}

),

-- of several attempts with one job id, or pods with one name, the one that ran then; rows of several models or adapters
-- on one server speak of one pool
servers as (

    select
        pools.usage_date,
        servers_of_runs.run_id,
        pools.server,
        max(pools.kv_cache_total_bytes) as pool_bytes,
        max(pools.kv_cache_usage_ratio) as peak_usage_ratio

    from pools
    inner join servers_of_runs
        on
            pools.cluster = servers_of_runs.cluster
            and pools.served_by = servers_of_runs.served_by
            and pools.interval_start_at < servers_of_runs.held_until_at
            and pools.interval_end_at > servers_of_runs.held_from_at
    group by pools.usage_date, servers_of_runs.run_id, pools.server

),

summed as (

    select
        usage_date,
        run_id,
        sum(cast(pool_bytes as double)) as pool_bytes,
        sum(peak_usage_ratio * pool_bytes) / nullif(sum(cast(pool_bytes as double)), 0) as peak_kv_cache_usage_ratio,
        count(*) as server_count,
        count(pool_bytes * peak_usage_ratio) as known_server_count

    from servers
    group by usage_date, run_id

),

described as (

    select
        held.usage_date,
        held.run_id,
        summed.server_count is not null and summed.known_server_count = summed.server_count as is_known,
        summed.pool_bytes / held.slot_count as kv_pool_bytes,
        summed.peak_kv_cache_usage_ratio

    from held
    left join summed on held.usage_date = summed.usage_date and held.run_id = summed.run_id

),

final as (

    select
        usage_date,
        run_id,
        case when is_known then kv_pool_bytes end as kv_pool_bytes,
        case when is_known then peak_kv_cache_usage_ratio end as peak_kv_cache_usage_ratio,
        case when is_known then (1.0 - coalesce(peak_kv_cache_usage_ratio, 0.0)) * kv_pool_bytes end as kv_free_bytes,
        case when is_known then '' else 'preallocated' end as null_reason

    from described

)

select * from final
