{{ config(
    materialized='incremental', incremental_strategy='replace_days', meta={'days': 'priced'},
    on_schema_change='append_new_columns'
) }}

-- What each model on a workload's GPUs held, cost and served in each hour. Several models on one workload share its
-- time and its money by prefill and decode time where all of them were timed, else by weighted tokens; an hour in which
-- none worked follows the split of the day's other hours, a day without any work splits evenly. Where a workload's GPUs
-- are paid for in several currencies, or partly have no price, what it served is split by the time held. All parts are
-- whole units that add up to what was held, paid and served.
{% set measures = [
    'request_count', 'failed_request_count', 'prompt_tokens', 'cached_prompt_tokens', 'uncached_prompt_tokens',
    'output_tokens', 'tokens_useful'
] %}

with

cost_bases as (

    select * from {{ ref('int_ledger_cost_bases_hourly') }}
    where workload_id not in ('unallocated', 'unknown') and {{ in_priced_days('usage_date') }}

),

inference_hours as (

    select * from {{ ref('fct_inference_hourly') }}
    where {{ in_priced_days('usage_date') }}

),

workloads as (

    select * from {{ ref('dim_workloads') }}

),

energy as (

    select * from {{ ref('int_workload_energy_hourly') }}
    where {{ in_priced_days('usage_date') }}

),

held_costs as (

    select
        hour_start_at,
        usage_date,
        workload_id,
        currency,
        cast(sum(held_us) as bigint) as held_us,
        {{ as_micros('sum(allocation_cost)') }} as allocation_micros,
        {{ as_micros('sum(usage_cost)') }} as usage_micros,
        {{ as_micros('sum(fully_loaded_cost)') }} as fully_loaded_micros

    from cost_bases
    group by hour_start_at, usage_date, workload_id, currency
    having sum(held_us) > 0

),

held as (

    select
        held_costs.*,
        energy.energy_mwh,
        energy.measured_us,
        energy.co2e_micrograms

    from held_costs
    left join energy
        on
            held_costs.hour_start_at = energy.hour_start_at
            and held_costs.workload_id = energy.workload_id
            and held_costs.currency = energy.currency

),

held_hours as (

    select distinct
        hour_start_at,
        usage_date,
        workload_id

    from held

),

-- a service without telemetry that day is one of the model it is configured with
served_days as (

    select distinct
        usage_date,
        workload_id

    from inference_hours

),

day_models as (

    select distinct
        usage_date,
        workload_id,
        model

    from inference_hours

    union

    select distinct
        held_hours.usage_date,
        held_hours.workload_id,
        workloads.model

    from held_hours
    inner join workloads on held_hours.workload_id = workloads.workload_id
    left join served_days
        on held_hours.usage_date = served_days.usage_date and held_hours.workload_id = served_days.workload_id
    where workloads.kind = 'inference' and served_days.workload_id is null

),

model_hours as (

    select
        held_hours.hour_start_at,
        held_hours.usage_date,
        held_hours.workload_id,
        day_models.model,
        inference_hours.prefill_seconds + inference_hours.decode_seconds as phase_seconds,
        cast(
            round(
                1000 * (
                    coalesce(inference_hours.uncached_prompt_tokens, 0)
                    + {{ var('output_token_weight') }} * coalesce(inference_hours.output_tokens, 0)
                )
            ) as bigint
        ) as token_weight

    from held_hours
    inner join day_models
        on held_hours.usage_date = day_models.usage_date and held_hours.workload_id = day_models.workload_id
    left join inference_hours
        on
            held_hours.hour_start_at = inference_hours.hour_start_at
            and held_hours.workload_id = inference_hours.workload_id
            and day_models.model = inference_hours.model

),

hour_methods as (

    select
        model_hours.*,
        coalesce(sum(phase_seconds) over (partition by hour_start_at, workload_id), 0) > 0
        and not bool_or(token_weight > 0 and phase_seconds is null) over (partition by hour_start_at, workload_id) as is_timed

    from model_hours

),

hour_weights as (

    select
        hour_methods.*,
        case
            when is_timed then cast(round(1e6 * coalesce(phase_seconds, 0)) as bigint)
            else token_weight
        end as own_weight

    from hour_methods

),

hour_shares as (

    select
        hour_weights.*,
        cast(own_weight as double) / nullif(sum(own_weight) over (partition by hour_start_at, workload_id), 0) as own_share

    from hour_weights

),

held_summed as (

    select
        hour_start_at,
        workload_id,
        cast(sum(held_us) as bigint) as held_us

    from held
    group by hour_start_at, workload_id

),

day_shares as (

    select
        hour_shares.usage_date,
        hour_shares.workload_id,
        hour_shares.model,
        cast(round(sum(hour_shares.own_share * held_summed.held_us)) as bigint) as day_weight

    from hour_shares
    inner join held_summed
        on hour_shares.hour_start_at = held_summed.hour_start_at and hour_shares.workload_id = held_summed.workload_id
    group by hour_shares.usage_date, hour_shares.workload_id, hour_shares.model

),

day_weights as (

    select
        day_shares.*,
        sum(coalesce(day_weight, 0)) over (partition by usage_date, workload_id) as all_weight

    from day_shares

),

weights as (

    select
        hour_shares.hour_start_at,
        hour_shares.usage_date,
        hour_shares.workload_id,
        hour_shares.model,
        case
            when hour_shares.own_share is not null then hour_shares.own_weight
            when day_weights.all_weight > 0 then coalesce(day_weights.day_weight, 0)
            else 1
        end as model_weight

    from hour_shares
    inner join day_weights
        on
            hour_shares.usage_date = day_weights.usage_date
            and hour_shares.workload_id = day_weights.workload_id
            and hour_shares.model = day_weights.model

),

-- one row per amount to be shared out, so that one rule shares all of them
held_amounts as (

    select hour_start_at, usage_date, workload_id, currency, 'held_us' as measure, held_us as amount from held
    union all
    select hour_start_at, usage_date, workload_id, currency, 'allocation' as measure, allocation_micros as amount from held
    union all
    select hour_start_at, usage_date, workload_id, currency, 'usage' as measure, usage_micros as amount from held
    union all
    select hour_start_at, usage_date, workload_id, currency, 'fully_loaded' as measure, fully_loaded_micros as amount from held
    union all
    select hour_start_at, usage_date, workload_id, currency, 'energy' as measure, energy_mwh as amount from held
    union all
    select hour_start_at, usage_date, workload_id, currency, 'measured_us' as measure, measured_us as amount from held
    union all
    select hour_start_at, usage_date, workload_id, currency, 'co2e' as measure, co2e_micrograms as amount from held

),

amounts_weighed as (

    select
        held_amounts.*,
        weights.model,
        weights.model_weight

    from held_amounts
    inner join weights
        on held_amounts.hour_start_at = weights.hour_start_at and held_amounts.workload_id = weights.workload_id
    where held_amounts.amount is not null

),

amounts_shared as (

    {{ shared_out(
        'amounts_weighed', 'amount', 'model_weight', ['hour_start_at', 'workload_id', 'currency', 'measure'], ['model']
    ) }}

),

model_costs as (

    select
        hour_start_at,
        usage_date,
        workload_id,
        model,
        currency,
        cast(sum(case when measure = 'held_us' then part end) as bigint) as held_us,
        cast(sum(case when measure = 'allocation' then part end) as bigint) as allocation_micros,
        cast(sum(case when measure = 'usage' then part end) as bigint) as usage_micros,
        cast(sum(case when measure = 'fully_loaded' then part end) as bigint) as fully_loaded_micros,
        cast(sum(case when measure = 'energy' then part end) as bigint) as energy_mwh,
        cast(sum(case when measure = 'measured_us' then part end) as bigint) as measured_us,
        cast(sum(case when measure = 'co2e' then part end) as bigint) as co2e_micrograms

    from amounts_shared
    group by hour_start_at, usage_date, workload_id, model, currency

),

-- what was served in an hour in which nothing was held (the scheduler's clock runs a little behind) stands in the
-- currency in which the workload held most that day
day_currencies_ranked as (

    select
        usage_date,
        workload_id,
        currency,
        row_number() over (
            partition by usage_date, workload_id
            order by sum(held_us) desc nulls last, currency asc nulls last
        ) as currency_rank

    from held
    group by usage_date, workload_id, currency

),

hour_currencies as (

    select
        hour_start_at,
        workload_id,
        currency,
        held_us as currency_weight

    from held

    union all

    select
        unheld.hour_start_at,
        unheld.workload_id,
        coalesce(day_currencies_ranked.currency, 'unknown') as currency,
        cast(1 as bigint) as currency_weight

    from (
        select distinct
            inference_hours.hour_start_at,
            inference_hours.usage_date,
            inference_hours.workload_id

        from inference_hours
        left join held_hours
            on
                inference_hours.hour_start_at = held_hours.hour_start_at
                and inference_hours.workload_id = held_hours.workload_id
        where held_hours.workload_id is null
    ) as unheld
    left join day_currencies_ranked
        on
            unheld.usage_date = day_currencies_ranked.usage_date
            and unheld.workload_id = day_currencies_ranked.workload_id
            and day_currencies_ranked.currency_rank = 1

),

served_amounts as (

    {% for measure in measures %}
    select hour_start_at, usage_date, workload_id, model, '{{ measure }}' as measure, {{ measure }} as amount
    from inference_hours
    where {{ measure }} is not null
    {{ 'union all' if not loop.last }}
    {% endfor %}

),

served_weighed as (

    select
        served_amounts.*,
        hour_currencies.currency,
        hour_currencies.currency_weight

    from served_amounts
    inner join hour_currencies
        on
            served_amounts.hour_start_at = hour_currencies.hour_start_at
            and served_amounts.workload_id = hour_currencies.workload_id

),

served_shared as (

    {{ shared_out(
        'served_weighed', 'amount', 'currency_weight', ['hour_start_at', 'workload_id', 'model', 'measure'], ['currency']
    ) }}

),

model_served as (

    select
        hour_start_at,
        usage_date,
        workload_id,
        model,
        currency,
        {% for measure in measures %}
        cast(sum(case when measure = '{{ measure }}' then part end) as bigint) as {{ measure }},
        {% endfor %}
        count(*) as measure_count

    from served_shared
    group by hour_start_at, usage_date, workload_id, model, currency

),

joined as (

    select
        coalesce(model_costs.hour_start_at, model_served.hour_start_at) as hour_start_at,
        coalesce(model_costs.usage_date, model_served.usage_date) as usage_date,
        coalesce(model_costs.workload_id, model_served.workload_id) as workload_id,
        coalesce(model_costs.model, model_served.model) as model,
        coalesce(model_costs.currency, model_served.currency) as currency,
        coalesce(model_costs.held_us, 0) as held_us,
        model_costs.allocation_micros,
        model_costs.usage_micros,
        model_costs.fully_loaded_micros,
        model_costs.energy_mwh,
        coalesce(model_costs.measured_us, 0) as measured_us,
        model_costs.co2e_micrograms,
        model_served.request_count,
        model_served.failed_request_count,
        model_served.prompt_tokens,
        model_served.cached_prompt_tokens,
        model_served.uncached_prompt_tokens,
        model_served.output_tokens,
        model_served.tokens_useful

    from model_costs
    full outer join model_served
        on
            model_costs.hour_start_at = model_served.hour_start_at
            and model_costs.workload_id = model_served.workload_id
            and model_costs.model = model_served.model
            and model_costs.currency = model_served.currency

),

priced_hours as (

    select
        hour_start_at,
        workload_id,
        bool_and(currency <> 'unknown') as is_priced

    from held
    group by hour_start_at, workload_id

),

-- how the hour's cost falls to input and output
phased as (

    select
        joined.*,
        coalesce(priced_hours.is_priced, true) as is_priced_hour,
        inference_hours.replica_count,
        case
            when inference_hours.prefill_seconds + inference_hours.decode_seconds > 0 then 'phase_time'
            when
                coalesce(inference_hours.uncached_prompt_tokens, 0) + coalesce(inference_hours.output_tokens, 0) > 0
                then 'weighted_tokens'
        end as token_cost_method,
        case
            when inference_hours.prefill_seconds + inference_hours.decode_seconds > 0
                then
                    inference_hours.prefill_seconds
                    / nullif(inference_hours.prefill_seconds + inference_hours.decode_seconds, 0)
            else
                cast(coalesce(inference_hours.uncached_prompt_tokens, 0) as double)
                / nullif(
                    coalesce(inference_hours.uncached_prompt_tokens, 0)
                    + cast({{ var('output_token_weight') }} as double) * coalesce(inference_hours.output_tokens, 0),
                    0
                )
        end as input_share

    from joined
    left join priced_hours
        on joined.hour_start_at = priced_hours.hour_start_at and joined.workload_id = priced_hours.workload_id
    left join inference_hours
        on
            joined.hour_start_at = inference_hours.hour_start_at
            and joined.workload_id = inference_hours.workload_id
            and joined.model = inference_hours.model

),

final as (

    select
        hour_start_at,
        usage_date,
        workload_id,
        model,
        currency,
        held_us,
        case when currency <> 'unknown' then {{ from_micros('allocation_micros') }} end as allocation_cost,
        case when currency <> 'unknown' then {{ from_micros('usage_micros') }} end as usage_cost,
        case when currency <> 'unknown' then {{ from_micros('fully_loaded_micros') }} end as fully_loaded_cost,
        energy_mwh,
        measured_us,
        co2e_micrograms,
        request_count,
        failed_request_count,
        prompt_tokens,
        cached_prompt_tokens,
        uncached_prompt_tokens,
        output_tokens,
        tokens_useful,
        replica_count,
        is_priced_hour,
        token_cost_method,
        input_share

    from phased

)

select * from final
