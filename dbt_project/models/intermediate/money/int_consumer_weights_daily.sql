{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

-- Who used a service that several share: the applications and teams that the gateway's log names, weighed by their
-- tokens (an output token weighs as much as elsewhere), by requests where none of the day's requests has tokens. A
-- request that names neither is the service's own.

with

requests as (

    select * from {{ ref('int_inference_requests_assigned') }}
    where workload_id <> 'unknown' and {{ in_touched_days('usage_date') }}

),

weighed as (

    select
        usage_date,
        workload_id,
        model,
        coalesce(application, '') as application,
        coalesce(team, '') as team,
        count(*) as request_count,
        cast(round(sum(
            1000 * (
                greatest(
                    coalesce(prompt_tokens, 0)
                    - case when prompt_includes_cached then coalesce(cached_prompt_tokens, 0) else 0 end,
                    0
                )
                + {{ var('output_token_weight') }} * coalesce(output_tokens, 0)
            )
        )) as bigint) as token_weight

    from requests
    group by usage_date, workload_id, model, coalesce(application, ''), coalesce(team, '')

),

totalled as (

    select
        weighed.*,
        sum(token_weight) over (partition by usage_date, workload_id, model) as all_token_weight

    from weighed

),

final as (

    select
        usage_date,
        workload_id,
        model,
        application,
        team,
        cast(case when all_token_weight > 0 then token_weight else request_count end as bigint) as consumer_weight

    from totalled

)

select * from final
