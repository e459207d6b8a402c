{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

-- The latency within which half and 95 % of a service's requests of an hour were answered, all its models together: from
-- the servers' histograms, added up first; where no server has one, from the gateway's log. A percentile above the last
-- boundary is null beside a source: all that is known is that it is higher.

with

buckets_by_model as (

    select * from {{ ref('int_inference_latency_hourly') }}
    where {{ in_touched_days('usage_date') }}

),

requests as (

    select * from {{ ref('int_inference_requests_assigned') }}
    where latency_ms is not null and not is_failed and {{ in_touched_days('usage_date') }}

),

buckets as (

    select
        hour_start_at,
        workload_id,
        above_seconds,
        le_seconds,
        sum(request_count) as request_count

    from buckets_by_model
    group by hour_start_at, workload_id, above_seconds, le_seconds

),

merged as (

    {{ merged_buckets('buckets', ['hour_start_at', 'workload_id']) }}

),

from_histograms as (

    select
        hour_start_at,
        workload_id,
        {{ latency_percentile(0.50) }} as latency_p50_seconds,
        {{ latency_percentile(0.95) }} as latency_p95_seconds

    from merged
    where total_count > 0
    group by hour_start_at, workload_id

),

from_log as (

    select
        hour_start_at,
        workload_id,
        percentile_cont(0.50) within group (order by latency_ms) / 1000 as latency_p50_seconds,
        percentile_cont(0.95) within group (order by latency_ms) / 1000 as latency_p95_seconds

    from requests
    group by hour_start_at, workload_id

),

final as (

    select
        coalesce(from_histograms.hour_start_at, from_log.hour_start_at) as hour_start_at,
        cast(coalesce(from_histograms.hour_start_at, from_log.hour_start_at) as date) as usage_date,
        coalesce(from_histograms.workload_id, from_log.workload_id) as workload_id,
        case when from_histograms.workload_id is not null then 'server' else 'gateway' end as latency_source,
        case
            when from_histograms.workload_id is not null then from_histograms.latency_p50_seconds
            else from_log.latency_p50_seconds
        end as latency_p50_seconds,
        case
            when from_histograms.workload_id is not null then from_histograms.latency_p95_seconds
            else from_log.latency_p95_seconds
        end as latency_p95_seconds

    from from_histograms
    full outer join from_log
        on
            from_histograms.hour_start_at = from_log.hour_start_at
            and from_histograms.workload_id = from_log.workload_id

)

select * from final
