{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

-- What the gateway's log says of each workload and model, by the hour in which a request began.

with

requests as (

    select * from {{ ref('int_inference_requests_assigned') }}
    where {{ in_touched_days('usage_date') }}

),

final as (

    select
        hour_start_at,
        usage_date,
        workload_id,
        model,
        case when count(distinct cluster) = 1 then min(cluster) else 'unknown' end as cluster,
        count(*) as request_count,
        cast(sum(case when is_failed then 1 else 0 end) as bigint) as failed_request_count,
        cast(sum(prompt_tokens) as bigint) as prompt_tokens,
        cast(sum(cached_prompt_tokens) as bigint) as cached_prompt_tokens,
        cast(
            greatest(
                sum(prompt_tokens - case when prompt_includes_cached then coalesce(cached_prompt_tokens, 0) else 0 end), 0
            ) as bigint
        ) as uncached_prompt_tokens,
        cast(sum(output_tokens) as bigint) as output_tokens,
        cast(
            sum(case when is_failed then coalesce(prompt_tokens, 0) + coalesce(output_tokens, 0) else 0 end) as bigint
        ) as failed_tokens

    from requests
    group by hour_start_at, usage_date, workload_id, model

)

select * from final
