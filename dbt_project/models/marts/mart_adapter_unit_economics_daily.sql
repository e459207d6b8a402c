{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

-- What the tokens and requests of each LoRA adapter cost. Only models with adapters have rows; the adapters of a model
-- add up to its row in `mart_unit_economics_daily`, whose grain is the model.
{% set counts = ['request_count', 'failed_request_count', 'prompt_tokens', 'cached_prompt_tokens', 'uncached_prompt_tokens',
    'output_tokens'] %}

with

adapter_hours as (

    select * from {{ ref('int_adapter_hours') }}
    where {{ in_touched_days('usage_date') }}

),

workloads as (

    select * from {{ ref('dim_workloads') }}

),

added as (

    select
        usage_date,
        workload_id,
        model,
        adapter,
        currency,
        {% for count in counts %}
        cast(sum({{ count }}) as bigint) as {{ count }},
        {% endfor %}
        cast(sum(held_us) as bigint) as held_us,
        sum(allocation_cost) as allocation_cost,
        sum(usage_cost) as usage_cost,
        sum(fully_loaded_cost) as fully_loaded_cost,
        cast(sum(energy_mwh) as bigint) as energy_mwh,
        cast(sum(measured_us) as bigint) as measured_us,
        cast(sum(co2e_micrograms) as bigint) as co2e_micrograms,
        -- where some of the energy has no carbon intensity, grams would be too few
        count(case when energy_mwh is not null and co2e_micrograms is null then 1 end) > 0 as is_carbon_partial,
        {% set is_metered = 'measured_us >= ' ~ var('coverage_floor_ratio') ~ ' * held_us' %}
        cast(sum(case when {{ is_metered }} then energy_mwh end) as double) / 1e6 as metered_kwh,
        cast(
            sum(case when {{ is_metered }} then coalesce(prompt_tokens, 0) + coalesce(output_tokens, 0) end) as double
        ) as metered_tokens,
        cast(sum(case when is_priced_hour then allocation_cost end) as double) as priced_cost,
        cast(sum(case when is_priced_hour and input_share is not null then allocation_cost end) as double) as split_cost,
        sum(case when is_priced_hour then cast(allocation_cost as double) * input_share end) as split_input_cost,
        cast(sum(case when is_priced_hour then uncached_prompt_tokens end) as double) as priced_input_tokens,
        cast(sum(case when is_priced_hour then output_tokens end) as double) as priced_output_tokens,
        cast(
            sum(case when is_priced_hour then coalesce(prompt_tokens, 0) + coalesce(output_tokens, 0) end) as double
        ) as priced_tokens,
        cast(
            sum(case when is_priced_hour then request_count - coalesce(failed_request_count, 0) end) as double
        ) as priced_successful_count

    from adapter_hours
    group by usage_date, workload_id, model, adapter, currency

),

judged as (

    select
        added.*,
        cast(coalesce(prompt_tokens, 0) + coalesce(output_tokens, 0) as bigint) as tokens_all,
        -- hours without tokens or phase time follow the split of the day's other hours
        priced_cost * split_input_cost / nullif(split_cost, 0) as priced_input_cost,
        measured_us >= {{ var('coverage_floor_ratio') }} * held_us and measured_us > 0 as is_energy_known,
        currency <> 'unknown'
        and coalesce(
            cast(sum(case when currency <> 'unknown' then held_us else 0 end) over (
                partition by usage_date, workload_id, model, adapter
            ) as double)
            / nullif(sum(held_us) over (partition by usage_date, workload_id, model, adapter), 0)
            >= {{ var('priced_floor_ratio') }},
            false
        ) as is_priced

    from added

),

final as (

    select
        -- ids
        judged.usage_date,
        judged.workload_id,
        judged.model,
        judged.adapter,
        judged.currency,
        coalesce(workloads.cluster, 'unknown') as cluster,

        -- counts
        {% for count in counts %}
        judged.{{ count }},
        {% endfor %}
        judged.tokens_all,

        -- time and money
        cast(judged.held_us as double) / 3.6e9 as held_gpu_hours,
        cast(judged.allocation_cost as decimal(18, 6)) as allocation_cost,
        cast(judged.usage_cost as decimal(18, 6)) as usage_cost,
        cast(judged.fully_loaded_cost as decimal(18, 6)) as fully_loaded_cost,
        {% for basis in ['allocation', 'usage', 'fully_loaded'] %}
        {{ in_reporting_currency('judged.' ~ basis ~ '_cost') }} as {{ basis }}_cost_reporting,
        {% endfor %}
        coalesce(exchange_rates.reporting_currency, 'unknown') as reporting_currency,
        {{ unit_cost('priced_cost', 'priced_tokens', '1e6') }} as cost_per_million_tokens,
        {{ unit_cost('priced_input_cost', 'priced_input_tokens', '1e6') }} as cost_per_million_input_tokens,
        {{ unit_cost('(priced_cost - priced_input_cost)', 'priced_output_tokens', '1e6') }} as cost_per_million_output_tokens,
        {{ unit_cost('priced_cost', 'priced_successful_count', '1000') }} as cost_per_thousand_requests,
        cast(judged.tokens_all as double) / nullif(judged.held_us / 3.6e9, 0) as tokens_per_gpu_hour,

        -- energy and carbon
        cast(judged.energy_mwh as double) / 1e6 as energy_kwh,
        case when judged.is_energy_known then 1e6 * judged.metered_kwh / nullif(judged.metered_tokens, 0) end
            as energy_kwh_per_million_tokens,
        case when not judged.is_carbon_partial then cast(judged.co2e_micrograms as double) / 1e6 end as co2e_grams,

        -- text
        case
            when not judged.is_priced then 'unpriced'
            when coalesce(judged.priced_tokens, 0) = 0 then 'no_tokens'
        end as null_reason

    from judged
    {{ join_exchange_rate('judged') }}
    left join workloads on judged.workload_id = workloads.workload_id

)

select * from final
