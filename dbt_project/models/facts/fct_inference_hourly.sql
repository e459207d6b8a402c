{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

-- One source of tokens per workload, model and hour: the servers' counters where they cover the served time, else the
-- gateway's log. The two are never added; how far they lie apart is shown.

with

usage_hours as (

    select * from {{ ref('int_inference_usage_hourly') }}
    where {{ in_touched_days('usage_date') }}

),

request_hours as (

    select * from {{ ref('int_inference_requests_hourly') }}
    where {{ in_touched_days('usage_date') }}

),

coverage as (

    select * from {{ ref('int_inference_coverage_hourly') }}
    where {{ in_touched_days('usage_date') }}

),

joined as (

    select
        coalesce(usage_hours.hour_start_at, request_hours.hour_start_at) as hour_start_at,
        coalesce(usage_hours.usage_date, request_hours.usage_date) as usage_date,
        coalesce(usage_hours.workload_id, request_hours.workload_id) as workload_id,
        coalesce(usage_hours.model, request_hours.model) as model,
        coalesce(usage_hours.cluster, request_hours.cluster) as cluster,
        usage_hours.workload_id is not null as has_counters,
        request_hours.workload_id is not null as has_log,
        usage_hours.request_count as usage_request_count,
        usage_hours.failed_request_count as usage_failed_request_count,
        usage_hours.prompt_tokens as usage_prompt_tokens,
        usage_hours.cached_prompt_tokens as usage_cached_prompt_tokens,
        usage_hours.uncached_prompt_tokens as usage_uncached_prompt_tokens,
        usage_hours.output_tokens as usage_output_tokens,
        usage_hours.prefill_seconds,
        usage_hours.decode_seconds,
        usage_hours.running_requests_mean,
        usage_hours.waiting_requests_mean,
        usage_hours.waiting_requests_max,
        usage_hours.kv_cache_usage_max,
        usage_hours.replica_count,
        request_hours.request_count as log_request_count,
        request_hours.failed_request_count as log_failed_request_count,
        request_hours.prompt_tokens as log_prompt_tokens,
        request_hours.cached_prompt_tokens as log_cached_prompt_tokens,
        request_hours.uncached_prompt_tokens as log_uncached_prompt_tokens,
        request_hours.output_tokens as log_output_tokens,
        request_hours.failed_tokens

    from usage_hours
    full outer join request_hours
        on
            usage_hours.hour_start_at = request_hours.hour_start_at
            and usage_hours.workload_id = request_hours.workload_id
            and usage_hours.model = request_hours.model

),

chosen as (

    select
        joined.*,
        coverage.covered_ratio,
        case
            when not joined.has_log then 'server'
            when joined.has_counters and coverage.covered_ratio >= {{ var('coverage_floor_ratio') }} then 'server'
            else 'gateway'
        end as token_source

    from joined
    left join coverage
        on joined.hour_start_at = coverage.hour_start_at and joined.workload_id = coverage.workload_id

),

counted as (

    select
        chosen.*,
        case when token_source = 'server' then usage_request_count else log_request_count end as request_count,
        case when token_source = 'server' then usage_failed_request_count else log_failed_request_count end as failed_request_count,
        case when token_source = 'server' then usage_prompt_tokens else log_prompt_tokens end as prompt_tokens,
        case when token_source = 'server' then usage_cached_prompt_tokens else log_cached_prompt_tokens end as cached_prompt_tokens,
        case
            when token_source = 'server' then usage_uncached_prompt_tokens else log_uncached_prompt_tokens
        end as uncached_prompt_tokens,
        case when token_source = 'server' then usage_output_tokens else log_output_tokens end as output_tokens,
        coalesce(usage_prompt_tokens, 0) + coalesce(usage_output_tokens, 0) as usage_tokens,
        coalesce(log_prompt_tokens, 0) + coalesce(log_output_tokens, 0) as log_tokens

    from chosen

),

final as (

    select
        -- ids
        hour_start_at,
        usage_date,
        workload_id,
        model,
        cluster,

        -- numerics
        request_count,
        failed_request_count,
        prompt_tokens,
        cached_prompt_tokens,
        uncached_prompt_tokens,
        output_tokens,
        coalesce(prompt_tokens, 0) + coalesce(output_tokens, 0) as tokens_all,
        -- a server's counters do not tell the tokens of failed requests apart; the gateway's log does
        greatest(coalesce(prompt_tokens, 0) + coalesce(output_tokens, 0) - coalesce(failed_tokens, 0), 0) as tokens_useful,
        prefill_seconds,
        decode_seconds,
        running_requests_mean,
        waiting_requests_mean,
        waiting_requests_max,
        kv_cache_usage_max,
        coalesce(replica_count, 0) as replica_count,
        covered_ratio as server_covered_ratio,
        case
            when has_counters and has_log
                then cast(abs(usage_tokens - log_tokens) as double) / nullif(greatest(usage_tokens, log_tokens), 0)
        end as token_difference_ratio,

        -- text
        token_source

    from counted

)

select * from final
