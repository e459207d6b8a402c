{{ config(
    materialized='incremental', incremental_strategy='replace_days', meta={'days': 'priced'},
    on_schema_change='append_new_columns'
) }}

-- What a token and a request cost, per workload and model. Every ratio is a sum over a sum: cost and units of the
-- hours in which all held time is priced. Below 95 % priced, or without tokens, the ratio is null and `null_reason`
-- says why; the cost stays.
{% set bases = ['allocation', 'usage', 'fully_loaded'] %}

with

model_hours as (

    select * from {{ ref('int_workload_model_hours') }}
    where {{ in_priced_days('usage_date') }}

),

latencies as (

    select * from {{ ref('int_inference_latency_daily') }}
    where {{ in_priced_days('usage_date') }}

),

workloads as (

    select * from {{ ref('dim_workloads') }}

),

inference_hours as (

    select * from {{ ref('fct_inference_hourly') }}
    where {{ in_priced_days('usage_date') }}

),

list_prices as (

    select * from {{ ref('int_list_prices') }}

),

exchange_rates as (

    select * from {{ ref('int_exchange_rates') }}

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
        cast(sum(energy_mwh) as bigint) as energy_mwh,
        cast(sum(co2e_micrograms) as bigint) as co2e_micrograms,
        cast(sum(measured_us) as bigint) as measured_us,
        -- where some of the energy has no carbon intensity, grams would be too few
        count(case when energy_mwh is not null and co2e_micrograms is null then 1 end) > 0 as is_carbon_partial,

        -- the hours whose energy is known, over which energy per unit is taken
        {% set is_metered = 'measured_us >= ' ~ var('coverage_floor_ratio') ~ ' * held_us' %}
        cast(sum(case when {{ is_metered }} then energy_mwh end) as double) / 1e6 as metered_kwh,
        cast(sum(case when {{ is_metered }} then co2e_micrograms end) as double) / 1e6 as metered_grams,
        cast(
            sum(case when {{ is_metered }} then coalesce(prompt_tokens, 0) + coalesce(output_tokens, 0) end) as double
        ) as metered_tokens,
        cast(sum(case when {{ is_metered }} then request_count end) as double) as metered_request_count,
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
        cast(coalesce(prompt_tokens, 0) + coalesce(output_tokens, 0) as bigint) as tokens_all,
        measured_us >= {{ var('coverage_floor_ratio') }} * held_us and measured_us > 0 as is_energy_known,
        -- what part of the day's tokens (without any: of its requests) the priced cost is of
        case
            when not is_priced then null
            when coalesce(prompt_tokens, 0) + coalesce(output_tokens, 0) > 0
                then priced_tokens / nullif(coalesce(prompt_tokens, 0) + coalesce(output_tokens, 0), 0)
            else priced_request_count / nullif(request_count, 0)
        end as priced_share_of_tokens

    from split

),

-- what the day's tokens and requests would have cost elsewhere, in the currency that they cost here; a price that is not
-- given for a kind that was served says nothing, nor does one in another currency on a day without an exchange rate
listed as (

    select
        ratios.usage_date,
        ratios.workload_id,
        ratios.model,
        ratios.currency,
        list_prices.list_model,
        list_prices.list_provider,
        list_prices.currency as list_currency,
        list_prices.valid_from,
        case when ratios.currency = list_prices.currency then 1 else list_rates.rate / own_rates.rate end
        * case
            when
                (coalesce(ratios.uncached_prompt_tokens, 0) > 0 and list_prices.input_price is null)
                or (coalesce(ratios.cached_prompt_tokens, 0) > 0 and list_prices.cached_price is null)
                or (coalesce(ratios.output_tokens, 0) > 0 and list_prices.output_price is null)
                then
                    ratios.request_count * list_prices.request_price / 1e3
            else
                (
                    coalesce(ratios.uncached_prompt_tokens * list_prices.input_price, 0.0)
                    + coalesce(ratios.cached_prompt_tokens * list_prices.cached_price, 0.0)
                    + coalesce(ratios.output_tokens * list_prices.output_price, 0.0)
                ) / 1e6
                + coalesce(ratios.request_count * list_prices.request_price / 1e3, 0.0)
        end as list_cost

    from ratios
    inner join list_prices
        on
            ratios.model = list_prices.model
            and list_prices.valid_from < cast(ratios.usage_date as timestamp) + interval 1 day
            and (list_prices.valid_to is null or cast(ratios.usage_date as timestamp) < list_prices.valid_to)
    left join exchange_rates as own_rates
        on
            ratios.currency = own_rates.currency
            and cast(ratios.usage_date as timestamp) >= own_rates.valid_from_at
            and cast(ratios.usage_date as timestamp) < own_rates.valid_to_at
    left join exchange_rates as list_rates
        on
            list_prices.currency = list_rates.currency
            and cast(ratios.usage_date as timestamp) >= list_rates.valid_from_at
            and cast(ratios.usage_date as timestamp) < list_rates.valid_to_at
    where ratios.currency = list_prices.currency or (own_rates.rate > 0 and list_rates.rate is not null)

),

-- of one provider's prices the newest, of several providers' the cheapest for what was served that day
listed_newest as (

    select
        listed.*,
        row_number() over (
            partition by usage_date, workload_id, model, currency, list_provider, list_model, list_currency
            order by valid_from desc nulls last
        ) as price_rank

    from listed

),

listed_cheapest as (

    select
        listed_newest.*,
        row_number() over (
            partition by usage_date, workload_id, model, currency
            order by
                list_cost nulls last, list_provider nulls last, list_model nulls last,
                case when list_currency = currency then 0 else 1 end nulls last, list_currency nulls last
        ) as provider_rank

    from listed_newest
    where price_rank = 1

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
        {% for basis in bases %}
        {{ in_reporting_currency('ratios.' ~ basis ~ '_cost') }} as {{ basis }}_cost_reporting,
        {% endfor %}
        coalesce(exchange_rates.reporting_currency, 'unknown') as reporting_currency,

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

        -- energy and carbon
        cast(ratios.energy_mwh as double) / 1e6 as energy_kwh,
        cast(ratios.measured_us as double) / 3.6e9 as energy_measured_gpu_hours,
        case when ratios.is_energy_known then 1e6 * ratios.metered_kwh / nullif(ratios.metered_tokens, 0) end
            as energy_kwh_per_million_tokens,
        case when ratios.is_energy_known then ratios.metered_kwh / nullif(ratios.metered_request_count, 0) end
            as energy_kwh_per_request,
        case when not ratios.is_carbon_partial then cast(ratios.co2e_micrograms as double) / 1e6 end as co2e_grams,
        case
            when ratios.is_energy_known and not ratios.is_carbon_partial
                then 1e6 * ratios.metered_grams / nullif(ratios.metered_tokens, 0)
        end as co2e_grams_per_million_tokens,
        case
            when ratios.is_energy_known and not ratios.is_carbon_partial
                then ratios.metered_grams / nullif(ratios.metered_request_count, 0)
        end as co2e_grams_per_request,

        -- build or buy
        listed_cheapest.list_model,
        listed_cheapest.list_provider,
        listed_cheapest.list_currency,
        cast(listed_cheapest.list_cost as decimal(18, 6)) as list_cost,
        {{ unit_cost('listed_cheapest.list_cost', 'cast(ratios.tokens_all as double)', '1e6') }} as list_cost_per_million_tokens,
        {{ unit_cost('listed_cheapest.list_cost', 'cast(ratios.request_count as double)', '1000') }} as list_cost_per_thousand_requests,
        cast(ratios.priced_allocation_cost as double) / nullif(ratios.priced_share_of_tokens, 0)
        / nullif(listed_cheapest.list_cost, 0) as cost_to_list_ratio,

        -- text
        ratios.token_cost_method,
        case
            when not ratios.is_priced then 'unpriced'
            when coalesce(ratios.priced_tokens, 0) = 0 then 'no_tokens'
        end as null_reason

    from ratios
    {{ join_exchange_rate('ratios') }}
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
    left join listed_cheapest
        on
            ratios.usage_date = listed_cheapest.usage_date
            and ratios.workload_id = listed_cheapest.workload_id
            and ratios.model = listed_cheapest.model
            and ratios.currency = listed_cheapest.currency
            and listed_cheapest.provider_rank = 1

)

select * from final
