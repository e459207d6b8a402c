{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

-- What a token and a request cost, per workload and model. Every ratio is a sum over a sum: cost and units of the
-- hours in which all held time is priced. Below 95 % priced, or without tokens, the ratio is null and `null_reason`
-- says why; the cost stays.
{% set bases = ['allocation', 'usage', 'fully_loaded'] %}

with

model_hours as (

    select * from {{ ref('int_workload_model_hours') }}
    where {{ in_touched_days('usage_date') }}

),

latencies as (

    select * from {{ ref('int_inference_latency_daily') }}
    where {{ in_touched_days('usage_date') }}

),

workloads as (

    select * from {{ ref('dim_workloads') }}

),

inference_hours as (

    select * from {{ ref('fct_inference_hourly') }}
    where {{ in_touched_days('usage_date') }}

),

-- the cluster of usage without a known workload is that of its rows
model_clusters as (

    select
        usage_date,
        workload_id,
        model,
        case when count(distinct cluster) = 1 then min(cluster) else 'unknown' end as cluster

    from inference_hours
    group by usage_date, workload_id, model

),

priced_shares as (

    select
        usage_date,
        workload_id,
        model,
        cast(sum(case when currency <> 'unknown' then held_us else 0 end) as double)
        / nullif(sum(held_us), 0) as priced_share

    from model_hours
    group by usage_date, workload_id, model

),

added as (

    select
        usage_date,
        workload_id,
        model,
        currency,
        cast(sum(request_count) as bigint) as request_count,
        cast(sum(failed_request_count) as bigint) as failed_request_count,
        cast(sum(prompt_tokens) as bigint) as prompt_tokens,
        cast(sum(cached_prompt_tokens) as bigint) as cached_prompt_tokens,
        cast(sum(uncached_prompt_tokens) as bigint) as uncached_prompt_tokens,
        cast(sum(output_tokens) as bigint) as output_tokens,
        cast(sum(tokens_useful) as bigint) as tokens_useful,
        max(replica_count) as replica_count,
        cast(sum(held_us) as bigint) as held_us,
        cast(sum(case when currency <> 'unknown' then held_us else 0 end) as bigint) as priced_us,
        {% for basis in bases %}
        sum({{ basis }}_cost) as {{ basis }}_cost,
        {% endfor %}

        -- the hours that unit costs are taken over
        cast(sum(case when is_priced_hour then request_count end) as double) as priced_request_count,
        cast(
            sum(case when is_priced_hour then request_count - coalesce(failed_request_count, 0) end) as double
        ) as priced_successful_count,
        cast(
            sum(case when is_priced_hour then coalesce(prompt_tokens, 0) + coalesce(output_tokens, 0) end) as double
        ) as priced_tokens,
        cast(sum(case when is_priced_hour then uncached_prompt_tokens end) as double) as priced_input_tokens,
        cast(sum(case when is_priced_hour then output_tokens end) as double) as priced_output_tokens,
        {% for basis in bases %}
        cast(sum(case when is_priced_hour then {{ basis }}_cost end) as double) as priced_{{ basis }}_cost,
        cast(
            sum(case when is_priced_hour and input_share is not null then {{ basis }}_cost end) as double
        ) as split_{{ basis }}_cost,
        sum(
            case when is_priced_hour then cast({{ basis }}_cost as double) * input_share end
        ) as split_{{ basis }}_input_cost,
        {% endfor %}
        case
            when count(distinct token_cost_method) = 0 then 'none'
            when count(distinct token_cost_method) = 1 then min(token_cost_method)
            else 'mixed'
        end as token_cost_method

    from model_hours
    group by usage_date, workload_id, model, currency

),

-- hours without tokens or phase time follow the split of the day's other hours
split as (

    select
        added.*,
        {% for basis in bases %}
        priced_{{ basis }}_cost * split_{{ basis }}_input_cost
        / nullif(split_{{ basis }}_cost, 0) as priced_{{ basis }}_input_cost,
        {% endfor %}
        priced_shares.priced_share,
        coalesce(priced_shares.priced_share >= {{ var('priced_floor_ratio') }}, false)
        and added.currency <> 'unknown' as is_priced

    from added
    inner join priced_shares
        on
            added.usage_date = priced_shares.usage_date
            and added.workload_id = priced_shares.workload_id
            and added.model = priced_shares.model

),

ratios as (

    select
        split.*,
        {% for basis in bases %}
        {{ unit_cost('priced_' ~ basis ~ '_cost', 'priced_tokens', '1e6') }} as {{ basis }}_cost_per_million_tokens,
        {{ unit_cost('priced_' ~ basis ~ '_input_cost', 'priced_input_tokens', '1e6') }} as {{ basis }}_cost_per_million_input_tokens,
        {{ unit_cost(
            '(priced_' ~ basis ~ '_cost - priced_' ~ basis ~ '_input_cost)', 'priced_output_tokens', '1e6'
        ) }} as {{ basis }}_cost_per_million_output_tokens,
        {{ unit_cost('priced_' ~ basis ~ '_cost', 'priced_request_count') }} as {{ basis }}_cost_per_request,
        {{ unit_cost('priced_' ~ basis ~ '_cost', 'priced_successful_count', '1000') }} as {{ basis }}_cost_per_thousand_requests,
        {% endfor %}
        cast(coalesce(prompt_tokens, 0) + coalesce(output_tokens, 0) as bigint) as tokens_all

    from split

),

final as (

    select
        -- ids
        ratios.usage_date,
        ratios.workload_id,
        ratios.model,
        ratios.currency,
        coalesce(workloads.cluster, model_clusters.cluster, 'unknown') as cluster,

        -- counts
        ratios.request_count,
        ratios.failed_request_count,
        ratios.prompt_tokens,
        ratios.cached_prompt_tokens,
        ratios.uncached_prompt_tokens,
        ratios.output_tokens,
        ratios.tokens_all,
        coalesce(ratios.tokens_useful, 0) as tokens_useful,
        coalesce(ratios.replica_count, 0) as replica_count,

        -- time and money
        cast(ratios.held_us as double) / 3.6e9 as held_gpu_hours,
        cast(ratios.priced_us as double) / 3.6e9 as priced_gpu_hours,
        cast(ratios.allocation_cost as decimal(18, 6)) as allocation_cost,
        cast(ratios.usage_cost as decimal(18, 6)) as usage_cost,
        cast(ratios.fully_loaded_cost as decimal(18, 6)) as fully_loaded_cost,

        -- unit costs
        {% for basis in bases %}
        {% set prefix = '' if basis == 'allocation' else basis ~ '_' %}
        {% for unit in ['million_tokens', 'million_input_tokens', 'million_output_tokens', 'request', 'thousand_requests'] %}
        ratios.{{ basis }}_cost_per_{{ unit }} as {{ prefix }}cost_per_{{ unit }},
        {% endfor %}
        {% endfor %}

        -- throughput and latency
        cast(ratios.tokens_all as double) / nullif(ratios.held_us / 3.6e9, 0) as tokens_per_gpu_hour,
        cast(ratios.request_count as double) / nullif(ratios.held_us / 3.6e9, 0) as requests_per_gpu_hour,
        latencies.latency_p50_seconds,
        latencies.latency_p95_seconds,
        latencies.latency_p99_seconds,

        -- text
        ratios.token_cost_method,
        case
            when not ratios.is_priced then 'unpriced'
            when coalesce(ratios.priced_tokens, 0) = 0 then 'no_tokens'
        end as null_reason

    from ratios
    left join workloads on ratios.workload_id = workloads.workload_id
    left join model_clusters
        on
            ratios.usage_date = model_clusters.usage_date
            and ratios.workload_id = model_clusters.workload_id
            and ratios.model = model_clusters.model
    left join latencies
        on
            ratios.usage_date = latencies.usage_date
            and ratios.workload_id = latencies.workload_id
            and ratios.model = latencies.model

)

select * from final
