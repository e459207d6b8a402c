{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

-- What the hosts did in each hour: readings weighted by their intervals, in the hour in which they start.

with

samples as (

    select
        cast(interval_start_at as date) as usage_date,
        cluster,
        node,
        date_trunc('hour', interval_start_at) as hour_start_at,
        interval_ms * 1000 as us,
        cpu_utilization_ratio,
        io_wait_ratio,
        -- a link carries as much in either direction
        case
            when network_rx_bytes is not null or network_tx_bytes is not null
                then greatest(coalesce(network_rx_bytes, 0), coalesce(network_tx_bytes, 0))
        end as network_bytes

    from {{ ref('stg_landing__node_samples') }}
    where {{ in_partitions('touched') }} and interval_ms > 0 and {{ in_touched_days('cast(interval_start_at as date)') }}

),

summed as (

    select
        usage_date,
        hour_start_at,
        cluster,
        node,
        least(cast(sum(us) as bigint), 3600000000) as sampled_us,
        sum(cpu_utilization_ratio * us)
        / nullif(sum(case when cpu_utilization_ratio is not null then us end), 0) as cpu_utilization_ratio,
        sum(io_wait_ratio * us)
        / nullif(sum(case when io_wait_ratio is not null then us end), 0) as io_wait_ratio,
        1e6 * sum(network_bytes)
        / nullif(sum(case when network_bytes is not null then us end), 0) as network_bytes_per_second

    from samples
    group by usage_date, hour_start_at, cluster, node

)

select * from summed
