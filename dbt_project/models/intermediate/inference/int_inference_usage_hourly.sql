{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

-- What the servers' own counters say of each workload and model, by the hour in which an interval starts. Adapters are
-- part of their model. Gauges are weighted by their intervals: a mean of readings would let a short one count as much
-- as a long one.

with

usage as (

    select
        inference_usage.*,
        date_trunc('hour', inference_usage.interval_start_at) as hour_start_at

    from {{ ref('int_inference_usage_owned') }} as inference_usage
    where {{ in_touched_days('inference_usage.usage_date') }}

),

final as (

    select
        hour_start_at,
        usage_date,
        workload_id,
        model,
        case when count(distinct cluster) = 1 then min(cluster) else 'unknown' end as cluster,
        cast(sum(request_count) as bigint) as request_count,
        cast(sum(failed_request_count) as bigint) as failed_request_count,
        cast(sum(prompt_tokens) as bigint) as prompt_tokens,
        cast(sum(cached_prompt_tokens) as bigint) as cached_prompt_tokens,
        cast(
            greatest(
                sum(
                    prompt_tokens
                    - case when coalesce(prompt_includes_cached, true) then coalesce(cached_prompt_tokens, 0) else 0 end
                ),
                0
            ) as bigint
        ) as uncached_prompt_tokens,
        cast(sum(output_tokens) as bigint) as output_tokens,
        sum(prefill_seconds) as prefill_seconds,
        sum(decode_seconds) as decode_seconds,
        sum(running_requests * interval_ms)
        / nullif(sum(case when running_requests is not null then interval_ms end), 0) as running_requests_mean,
        sum(waiting_requests * interval_ms)
        / nullif(sum(case when waiting_requests is not null then interval_ms end), 0) as waiting_requests_mean,
        max(waiting_requests) as waiting_requests_max,
        max(kv_cache_usage_ratio) as kv_cache_usage_max,
        count(distinct server) as replica_count

    from usage
    group by hour_start_at, usage_date, workload_id, model

)

select * from final
