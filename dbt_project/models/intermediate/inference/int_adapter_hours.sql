{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

-- What each LoRA adapter on a model served, held and cost in each hour: the model's own figures, shared out. The
-- servers' counters tell adapters apart where they name any that day, else the gateway's log does; a model without
-- adapters has no row. Time and money fall by prefill and decode time where all of them were timed, else by weighted
-- tokens, else by requests; an hour in which none worked follows the day's other hours. Requests and tokens fall by
-- what the source counts, energy and carbon as time and money do. All parts are whole units that add up to the model's.
{% set bases = ['allocation', 'usage', 'fully_loaded'] %}
{% set amounts = [('held_us', 'held_us'), ('allocation', as_micros('allocation_cost')), ('usage', as_micros('usage_cost')),
    ('fully_loaded', as_micros('fully_loaded_cost')), ('energy_mwh', 'energy_mwh'), ('measured_us', 'measured_us'),
    ('co2e_micrograms', 'co2e_micrograms')] %}
{% set counts = ['request_count', 'failed_request_count', 'prompt_tokens', 'cached_prompt_tokens', 'uncached_prompt_tokens',
    'output_tokens'] %}

with

usage as (

    select
        date_trunc('hour', interval_start_at) as hour_start_at,
        usage_date,
        workload_id,
        model,
        nullif(trim(adapter), '') as adapter,
        'server' as source_name,
        request_count,
        failed_request_count,
        prompt_tokens,
        cached_prompt_tokens,
        coalesce(prompt_includes_cached, true) as prompt_includes_cached,
        output_tokens,
        prefill_seconds,
        prefill_seconds + decode_seconds as phase_seconds

    from {{ ref('int_inference_usage_owned') }}
    where {{ in_touched_days('usage_date') }}

),

requests as (

    select
        hour_start_at,
        usage_date,
        workload_id,
        model,
        adapter,
        'gateway' as source_name,
        cast(1 as bigint) as request_count,
        cast(case when is_failed then 1 else 0 end as bigint) as failed_request_count,
        prompt_tokens,
        cached_prompt_tokens,
        prompt_includes_cached,
        output_tokens,
        cast(null as double) as prefill_seconds,
        cast(null as double) as phase_seconds

    from {{ ref('int_inference_requests_assigned') }}
    where {{ in_touched_days('usage_date') }}

),

model_hours as (

    select * from {{ ref('int_workload_model_hours') }}
    where {{ in_touched_days('usage_date') }}

),

told as (

    select * from usage
    union all
    select * from requests

),

-- `server` comes after `gateway`
sources as (

    select
        usage_date,
        workload_id,
        model,
        max(source_name) as source_name

    from told
    where adapter is not null
    group by usage_date, workload_id, model

),

own_hours as (

    select
        told.hour_start_at,
        told.usage_date,
        told.workload_id,
        told.model,
        coalesce(told.adapter, 'none') as adapter,
        {% for count in counts if count != 'uncached_prompt_tokens' %}
        cast(sum(told.{{ count }}) as bigint) as own_{{ count }},
        {% endfor %}
        cast(
            greatest(
                sum(
                    told.prompt_tokens - case when told.prompt_includes_cached then coalesce(told.cached_prompt_tokens, 0) else 0 end
                ),
                0
            ) as bigint
        ) as own_uncached_prompt_tokens,
        sum(told.prefill_seconds) as prefill_seconds,
        case when count(told.phase_seconds) = count(*) then sum(told.phase_seconds) end as phase_seconds

    from told
    inner join sources
        on
            told.usage_date = sources.usage_date
            and told.workload_id = sources.workload_id
            and told.model = sources.model
            and told.source_name = sources.source_name
    group by told.hour_start_at, told.usage_date, told.workload_id, told.model, coalesce(told.adapter, 'none')

),

weighed_hours as (

    select
        own_hours.*,
        cast(
            round(
                1000 * (
                    coalesce(own_uncached_prompt_tokens, 0) + {{ var('output_token_weight') }} * coalesce(own_output_tokens, 0)
                )
            ) as bigint
        ) as token_weight,
        coalesce(sum(phase_seconds) over (partition by hour_start_at, workload_id, model), 0) > 0
        and count(phase_seconds) over (partition by hour_start_at, workload_id, model)
        = count(*) over (partition by hour_start_at, workload_id, model) as is_timed

    from own_hours

),

own_weights as (

    select
        weighed_hours.*,
        case
            when is_timed then cast(round(1e6 * phase_seconds) as bigint)
            when sum(token_weight) over (partition by hour_start_at, workload_id, model) > 0 then token_weight
            else coalesce(own_request_count, 0)
        end as own_weight,
        -- how the adapter's own cost falls to input and output
        case
            when is_timed then prefill_seconds / nullif(phase_seconds, 0)
            else
                cast(coalesce(own_uncached_prompt_tokens, 0) as double)
                / nullif(
                    coalesce(own_uncached_prompt_tokens, 0)
                    + cast({{ var('output_token_weight') }} as double) * coalesce(own_output_tokens, 0),
                    0
                )
        end as input_share

    from weighed_hours

),

own_shares as (

    select
        own_weights.*,
        sum(own_weight) over (partition by hour_start_at, workload_id, model) as hour_weight

    from own_weights

),

-- of the day each hour counts alike, whatever its weights are of
day_shares as (

    select
        usage_date,
        workload_id,
        model,
        adapter,
        cast(round(1e9 * coalesce(sum(cast(own_weight as double) / nullif(hour_weight, 0)), 0)) as bigint) as day_share

    from own_shares
    group by usage_date, workload_id, model, adapter

),

day_weights as (

    select
        day_shares.*,
        case when sum(day_share) over (partition by usage_date, workload_id, model) > 0 then day_share else 1 end as day_weight

    from day_shares

),

adapter_hours as (

    select
        model_hours.hour_start_at,
        model_hours.usage_date,
        model_hours.workload_id,
        model_hours.model,
        model_hours.currency,
        day_weights.adapter,
        day_weights.day_weight,
        own_shares.own_weight,
        own_shares.input_share,
        max(own_shares.hour_weight) over (
            partition by model_hours.hour_start_at, model_hours.workload_id, model_hours.model, model_hours.currency
        ) as hour_weight,
        {% for name, amount in amounts %}
        {{ amount }} as {{ name }},
        {% endfor %}
        {% for count in counts %}
        model_hours.{{ count }},
        own_shares.own_{{ count }},
        {% endfor %}
        model_hours.is_priced_hour

    from model_hours
    inner join day_weights
        on
            model_hours.usage_date = day_weights.usage_date
            and model_hours.workload_id = day_weights.workload_id
            and model_hours.model = day_weights.model
    left join own_shares
        on
            model_hours.hour_start_at = own_shares.hour_start_at
            and model_hours.workload_id = own_shares.workload_id
            and model_hours.model = own_shares.model
            and day_weights.adapter = own_shares.adapter

),

cost_weights as (

    select
        adapter_hours.*,
        case when hour_weight > 0 then coalesce(own_weight, 0) else day_weight end as cost_weight

    from adapter_hours

),

measures_weighed as (

    {% for name, amount in amounts %}
    select
        hour_start_at, usage_date, workload_id, model, currency, adapter, '{{ name }}' as measure, {{ name }} as amount,
        cost_weight as weight
    from cost_weights
    where {{ name }} is not null
    union all
    {% endfor %}
    {% for count in counts %}
    select
        hour_start_at, usage_date, workload_id, model, currency, adapter, '{{ count }}' as measure, {{ count }} as amount,
        case
            when
                sum(coalesce(own_{{ count }}, 0)) over (partition by hour_start_at, workload_id, model, currency) > 0
                then coalesce(own_{{ count }}, 0)
            else cost_weight
        end as weight
    from cost_weights
    where {{ count }} is not null
    {{ 'union all' if not loop.last }}
    {% endfor %}

),

shared as (

    {{ shared_out(
        'measures_weighed', 'amount', 'weight', ['hour_start_at', 'workload_id', 'model', 'currency', 'measure'], ['adapter']
    ) }}

),

added as (

    select
        hour_start_at,
        usage_date,
        workload_id,
        model,
        adapter,
        currency,
        cast(coalesce(sum(case when measure = 'held_us' then part end), 0) as bigint) as held_us,
        {% for name in bases %}
        {{ from_micros("sum(case when measure = '" ~ name ~ "' then part end)") }} as {{ name }}_cost,
        {% endfor %}
        cast(sum(case when measure = 'energy_mwh' then part end) as bigint) as energy_mwh,
        cast(coalesce(sum(case when measure = 'measured_us' then part end), 0) as bigint) as measured_us,
        cast(sum(case when measure = 'co2e_micrograms' then part end) as bigint) as co2e_micrograms,
        {% for count in counts %}
        cast(sum(case when measure = '{{ count }}' then part end) as bigint) as {{ count }}
        {{- ',' if not loop.last }}
        {% endfor %}

    from shared
    group by hour_start_at, usage_date, workload_id, model, adapter, currency

),

told_hours as (

    select
        hour_start_at,
        workload_id,
        model,
        adapter,
        currency,
        input_share,
        is_priced_hour

    from cost_weights

),

final as (

    select
        added.*,
        told_hours.input_share,
        told_hours.is_priced_hour

    from added
    inner join told_hours
        on
            added.hour_start_at = told_hours.hour_start_at
            and added.workload_id = told_hours.workload_id
            and added.model = told_hours.model
            and added.adapter = told_hours.adapter
            and added.currency = told_hours.currency

)

select * from final
