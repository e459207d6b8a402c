{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

-- The latency within which half, 95 % and 99 % of a day's requests were answered: from the servers' histograms, added
-- up first and read linearly inside a bucket; where no server has one, from the gateway's log. A percentile that lies
-- above the last boundary is null: all that is known is that it is higher.

with

buckets_hourly as (

    select * from {{ ref('int_inference_latency_hourly') }}
    where {{ in_touched_days('usage_date') }}

),

requests as (

    select * from {{ ref('int_inference_requests_assigned') }}
    where latency_ms is not null and not is_failed and {{ in_touched_days('usage_date') }}

),

buckets as (

    select
        usage_date,
        workload_id,
        model,
        above_seconds,
        le_seconds,
        sum(request_count) as request_count

    from buckets_hourly
    group by usage_date, workload_id, model, above_seconds, le_seconds

),

merged as (

    {{ merged_buckets('buckets', ['usage_date', 'workload_id', 'model']) }}

),

from_histograms as (

    select
        usage_date,
        workload_id,
        model,
        {{ latency_percentile(0.50) }} as latency_p50_seconds,
        {{ latency_percentile(0.95) }} as latency_p95_seconds,
        {{ latency_percentile(0.99) }} as latency_p99_seconds

    from merged
    where total_count > 0
    group by usage_date, workload_id, model

),

from_log as (

    select
        usage_date,
        workload_id,
        model,
        percentile_cont(0.50) within group (order by latency_ms) / 1000 as latency_p50_seconds,
        percentile_cont(0.95) within group (order by latency_ms) / 1000 as latency_p95_seconds,
        percentile_cont(0.99) within group (order by latency_ms) / 1000 as latency_p99_seconds

    from requests
    group by usage_date, workload_id, model

),

final as (

    select
        coalesce(from_histograms.usage_date, from_log.usage_date) as usage_date,
        coalesce(from_histograms.workload_id, from_log.workload_id) as workload_id,
        coalesce(from_histograms.model, from_log.model) as model,
        case when from_histograms.model is not null then 'server' else 'gateway' end as latency_source,
        case
            when from_histograms.model is not null then from_histograms.latency_p50_seconds
            else from_log.latency_p50_seconds
        end as latency_p50_seconds,
        case
            when from_histograms.model is not null then from_histograms.latency_p95_seconds
            else from_log.latency_p95_seconds
        end as latency_p95_seconds,
        case
            when from_histograms.model is not null then from_histograms.latency_p99_seconds
            else from_log.latency_p99_seconds
        end as latency_p99_seconds

    from from_histograms
    full outer join from_log
        on
            from_histograms.usage_date = from_log.usage_date
            and from_histograms.workload_id = from_log.workload_id
            and from_histograms.model = from_log.model

)

select * from final
