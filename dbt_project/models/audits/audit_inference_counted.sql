-- The promise of semantics 8: the requests and tokens of a workload are those landed by the one source chosen for its
-- hour, and no landed row is lost on the way. Promised is what landed, from the landed rows themselves; measured is what
-- `fct_inference_hourly` counts from that source, and beside it what the source landed for hours in which the other one
-- was chosen. A row that does not hold keeps the build from being published: requests or tokens were lost or counted
-- twice, so that every cost per token is wrong.

{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

{% set measures = ['request_count', 'failed_request_count', 'prompt_tokens', 'cached_prompt_tokens', 'output_tokens'] %}

with

usage as (

    select
        cast(interval_start_at as date) as usage_date,
        inference_usage.*

    from {{ ref('int_inference_usage_owned') }} as inference_usage
    where {{ in_touched_days('cast(interval_start_at as date)') }}

),

requests as (

    select
        usage_date,
        1 as request_count,
        case when is_failed then 1 else 0 end as failed_request_count,
        prompt_tokens,
        cached_prompt_tokens,
        output_tokens

    from {{ ref('int_inference_requests_assigned') }}
    where {{ in_touched_days('usage_date') }}

),

usage_hours as (

    select * from {{ ref('int_inference_usage_hourly') }}
    where {{ in_touched_days('usage_date') }}

),

request_hours as (

    select * from {{ ref('int_inference_requests_hourly') }}
    where {{ in_touched_days('usage_date') }}

),

inference_hours as (

    select * from {{ ref('fct_inference_hourly') }}
    where {{ in_touched_days('usage_date') }}

),

landed as (

    {% for source, relation in [('server', 'usage'), ('gateway', 'requests')] %}{% for measure in measures -%}
    select usage_date, '{{ source }}' as token_source, '{{ measure }}' as measure, sum({{ measure }}) as amount
    from {{ relation }}
    group by usage_date
    {{ 'union all' if not loop.last }}
    {% endfor %}{{ 'union all' if not loop.last }}
    {% endfor %}

),

chosen as (

    {% for measure in measures -%}
    select usage_date, token_source, '{{ measure }}' as measure, sum({{ measure }}) as amount
    from inference_hours
    group by usage_date, token_source
    {{ 'union all' if not loop.last }}
    {% endfor %}

),

-- hours of which the other source was believed
left_aside as (

    {% for source, relation in [('server', 'usage_hours'), ('gateway', 'request_hours')] %}{% for measure in measures -%}
    select
        {{ relation }}.usage_date,
        '{{ source }}' as token_source,
        '{{ measure }}' as measure,
        sum({{ relation }}.{{ measure }}) as amount
    from {{ relation }}
    inner join inference_hours
        on
            {{ relation }}.hour_start_at = inference_hours.hour_start_at
            and {{ relation }}.workload_id = inference_hours.workload_id
            and {{ relation }}.model = inference_hours.model
            and inference_hours.token_source <> '{{ source }}'
    group by {{ relation }}.usage_date
    {{ 'union all' if not loop.last }}
    {% endfor %}{{ 'union all' if not loop.last }}
    {% endfor %}

),

amounts as (

    select usage_date, token_source, measure, amount as landed_amount, 0 as counted_amount, 0 as left_aside_amount from landed
    union all
    select usage_date, token_source, measure, 0, amount, 0 from chosen
    union all
    select usage_date, token_source, measure, 0, 0, amount from left_aside

),

audited as (

    select
        usage_date,
        token_source,
        measure,
        cast(coalesce(sum(landed_amount), 0) as bigint) as promised,
        cast(coalesce(sum(counted_amount), 0) + coalesce(sum(left_aside_amount), 0) as bigint) as measured,
        cast(coalesce(sum(left_aside_amount), 0) as bigint) as left_aside

    from amounts
    group by usage_date, token_source, measure

),

final as (

    select
        audited.*,
        measured - promised as difference,
        measured = promised as holds

    from audited

)

select * from final
