{{ config(
    materialized='incremental', incremental_strategy='replace_days', meta={'days': 'priced'},
    on_schema_change='append_new_columns'
) }}

-- The ledger's money and the unused commitments of each day, line by line. Held time is a line of its workload, split by
-- the models it served (as in unit economics), and by the applications and teams that the gateway's log says used them.
-- Unallocated, borrowed and out-of-service time and unused commitments are lines of nobody, with what of them no
-- workload could carry as their fully loaded cost. All parts are whole units: the lines add up to the ledger.
{% set amounts = ['held_us', 'allocation', 'usage', 'fully_loaded'] %}

with

ledger as (

    select * from {{ ref('fct_gpu_ledger_hourly') }}
    where {{ in_priced_days('usage_date') }}

),

cost_bases as (

    select * from {{ ref('int_ledger_cost_bases_hourly') }}
    where {{ in_priced_days('usage_date') }}

),

model_hours as (

    select * from {{ ref('int_workload_model_hours') }}
    where
        (held_us > 0 or allocation_cost <> 0 or usage_cost <> 0 or fully_loaded_cost <> 0)
        and {{ in_priced_days('usage_date') }}

),

consumers as (

    select * from {{ ref('int_consumer_weights_daily') }}
    where {{ in_priced_days('usage_date') }}

),

commitments as (

    select * from {{ ref('int_commitment_unused_hours') }}
    where {{ in_priced_days('usage_date') }}

),

energy_left_out as (

    select
        hour_start_at,
        cluster,
        gpu_id

    from {{ ref('int_device_hour_costs') }}
    where is_energy_left_out and {{ in_priced_days('usage_date') }}

),

ledger_hours as (

    select
        ledger.hour_start_at,
        ledger.usage_date,
        ledger.cluster,
        ledger.gpu_model,
        ledger.workload_id,
        case when ledger.workload_id <> 'unallocated' then 'held' else ledger.state end as cost_line,
        ledger.currency,
        cast(sum(ledger.gpu_microseconds) as bigint) as gpu_us,
        cast(
            sum(case when energy_left_out.gpu_id is not null then ledger.gpu_microseconds else 0 end) as bigint
        ) as energy_left_out_us,
        sum(ledger.cost) as cost,
        sum(case when ledger.cost_source = 'billing' then ledger.cost else 0 end) as billing_cost,
        sum(case when ledger.cost_source = 'rate_card' then ledger.cost else 0 end) as rate_card_cost,
        sum(case when ledger.cost_source = 'estimate' then ledger.cost else 0 end) as estimate_cost

    from ledger
    left join energy_left_out
        on
            ledger.hour_start_at = energy_left_out.hour_start_at
            and ledger.cluster = energy_left_out.cluster
            and ledger.gpu_id = energy_left_out.gpu_id
    group by
        ledger.hour_start_at, ledger.usage_date, ledger.cluster, ledger.gpu_model, ledger.workload_id,
        case when ledger.workload_id <> 'unallocated' then 'held' else ledger.state end, ledger.currency

),

-- where the money of a line comes from
line_sources as (

    select
        usage_date,
        cluster,
        workload_id,
        cost_line,
        currency,
        cast(sum(gpu_us) as bigint) as gpu_us,
        sum(cost) as cost,
        cast(sum(billing_cost) as double) / nullif(cast(sum(cost) as double), 0) as billing_cost_ratio,
        cast(sum(rate_card_cost) as double) / nullif(cast(sum(cost) as double), 0) as rate_card_cost_ratio,
        cast(sum(estimate_cost) as double) / nullif(cast(sum(cost) as double), 0) as estimate_cost_ratio,
        cast(sum(energy_left_out_us) as double) / nullif(sum(gpu_us), 0) as energy_left_out_ratio

    from ledger_hours
    group by usage_date, cluster, workload_id, cost_line, currency

),

held_days as (

    select
        usage_date,
        cluster,
        workload_id,
        currency,
        cast(sum(held_us) as bigint) as held_us,
        {{ as_micros('sum(allocation_cost)') }} as allocation,
        {{ as_micros('sum(usage_cost)') }} as usage,
        {{ as_micros('sum(fully_loaded_cost)') }} as fully_loaded

    from cost_bases
    where workload_id <> 'unallocated'
    group by usage_date, cluster, workload_id, currency

),

model_days as (

    select
        usage_date,
        workload_id,
        model,
        currency,
        cast(sum(held_us) as bigint) as held_us,
        {{ as_micros('sum(allocation_cost)') }} as allocation,
        {{ as_micros('sum(usage_cost)') }} as usage,
        {{ as_micros('sum(fully_loaded_cost)') }} as fully_loaded

    from model_hours
    group by usage_date, workload_id, model, currency

),

-- a workload without models is its own only part
held_parts as (

    select
        held_days.usage_date,
        held_days.cluster,
        held_days.workload_id,
        coalesce(model_days.model, '') as model,
        held_days.currency,
        {% for amount in amounts %}
        case when model_days.workload_id is not null then model_days.{{ amount }} else held_days.{{ amount }} end as {{ amount }}
        {{- ',' if not loop.last }}
        {% endfor %}

    from held_days
    left join model_days
        on
            held_days.usage_date = model_days.usage_date
            and held_days.workload_id = model_days.workload_id
            and held_days.currency = model_days.currency

),

consumed as (

    select
        held_parts.*,
        coalesce(consumers.application, '') as application,
        coalesce(consumers.team, '') as team,
        coalesce(consumers.consumer_weight, 1) as consumer_weight

    from held_parts
    left join consumers
        on
            held_parts.usage_date = consumers.usage_date
            and held_parts.workload_id = consumers.workload_id
            and held_parts.model = consumers.model

),

amounts_weighed as (

    {% for amount in amounts %}
    select
        usage_date, cluster, workload_id, model, currency, application, team, consumer_weight,
        '{{ amount }}' as measure, {{ amount }} as amount
    from consumed
    where {{ amount }} is not null
    {{ 'union all' if not loop.last }}
    {% endfor %}

),

amounts_shared as (

    {{ shared_out(
        'amounts_weighed', 'amount', 'consumer_weight',
        ['usage_date', 'cluster', 'workload_id', 'model', 'currency', 'measure'], ['team', 'application']
    ) }}

),

held_lines as (

    select
        amounts_shared.usage_date,
        'held' as cost_line,
        amounts_shared.cluster,
        amounts_shared.workload_id,
        amounts_shared.model,
        amounts_shared.application,
        amounts_shared.team,
        amounts_shared.currency,
        cast(sum(case when amounts_shared.measure = 'held_us' then amounts_shared.part else 0 end) as bigint) as gpu_us,
        {% for amount in amounts[1:] %}
        cast(sum(case when amounts_shared.measure = '{{ amount }}' then amounts_shared.part end) as bigint) as {{ amount }}_micros,
        {% endfor %}
        max(line_sources.billing_cost_ratio) as billing_cost_ratio,
        max(line_sources.rate_card_cost_ratio) as rate_card_cost_ratio,
        max(line_sources.estimate_cost_ratio) as estimate_cost_ratio,
        max(line_sources.energy_left_out_ratio) as energy_left_out_ratio

    from amounts_shared
    left join line_sources
        on
            amounts_shared.usage_date = line_sources.usage_date
            and amounts_shared.cluster = line_sources.cluster
            and amounts_shared.workload_id = line_sources.workload_id
            and amounts_shared.currency = line_sources.currency
            and line_sources.cost_line = 'held'
    group by
        amounts_shared.usage_date, amounts_shared.cluster, amounts_shared.workload_id, amounts_shared.model,
        amounts_shared.application, amounts_shared.team, amounts_shared.currency

),

-- in these hours nobody could carry what nobody held
left_over as (

    select
        hour_start_at,
        cluster,
        gpu_model,
        currency,
        fully_loaded_cost

    from cost_bases
    where workload_id = 'unallocated' and cluster <> 'unallocated'

),

nobodys_hours as (

    select
        ledger_hours.hour_start_at,
        ledger_hours.usage_date,
        ledger_hours.cluster,
        ledger_hours.gpu_model,
        ledger_hours.currency,
        ledger_hours.cost_line,
        case
            when left_over.hour_start_at is null or left_over.fully_loaded_cost is null then 0
            when ledger_hours.cost_line <> 'borrowed' then ledger_hours.cost
            -- borrowed time whose slot somebody held is with its holders
            else left_over.fully_loaded_cost - sum(
                case when ledger_hours.cost_line <> 'borrowed' then ledger_hours.cost else 0 end
            ) over (
                partition by ledger_hours.hour_start_at, ledger_hours.cluster, ledger_hours.gpu_model, ledger_hours.currency
            )
        end as left_cost

    from ledger_hours
    left join left_over
        on
            ledger_hours.hour_start_at = left_over.hour_start_at
            and ledger_hours.cluster = left_over.cluster
            and ledger_hours.gpu_model = left_over.gpu_model
            and ledger_hours.currency = left_over.currency
    where ledger_hours.workload_id = 'unallocated'

),

nobodys_days as (

    select
        usage_date,
        cluster,
        currency,
        cost_line,
        sum(left_cost) as left_cost

    from nobodys_hours
    group by usage_date, cluster, currency, cost_line

),

nobodys_lines as (

    select
        line_sources.usage_date,
        line_sources.cost_line,
        line_sources.cluster,
        'unallocated' as workload_id,
        'unallocated' as model,
        'unallocated' as application,
        'unallocated' as team,
        line_sources.currency,
        line_sources.gpu_us,
        {{ as_micros('line_sources.cost') }} as cost_micros,
        {{ as_micros('nobodys_days.left_cost') }} as fully_loaded_micros,
        line_sources.billing_cost_ratio,
        line_sources.rate_card_cost_ratio,
        line_sources.estimate_cost_ratio,
        line_sources.energy_left_out_ratio

    from line_sources
    inner join nobodys_days
        on
            line_sources.usage_date = nobodys_days.usage_date
            and line_sources.cluster = nobodys_days.cluster
            and line_sources.currency = nobodys_days.currency
            and line_sources.cost_line = nobodys_days.cost_line
    where line_sources.workload_id = 'unallocated'

),

commitments_left as (

    select
        usage_date,
        currency,
        sum(fully_loaded_cost) as left_cost

    from cost_bases
    where workload_id = 'unallocated' and cluster = 'unallocated'
    group by usage_date, currency

),

commitment_days as (

    select
        usage_date,
        currency,
        sum(cost) as cost

    from commitments
    group by usage_date, currency

),

commitment_lines as (

    select
        commitment_days.usage_date,
        commitment_days.currency,
        {{ as_micros('commitment_days.cost') }} as cost_micros,
        {{ as_micros('coalesce(commitments_left.left_cost, 0)') }} as fully_loaded_micros

    from commitment_days
    left join commitments_left
        on commitment_days.usage_date = commitments_left.usage_date and commitment_days.currency = commitments_left.currency

),

lines as (

    select
        usage_date, cost_line, cluster, workload_id, model, application, team, currency, gpu_us,
        allocation_micros as cost_micros, allocation_micros, usage_micros, fully_loaded_micros,
        billing_cost_ratio, rate_card_cost_ratio, estimate_cost_ratio, energy_left_out_ratio
    from held_lines

    union all

    select
        usage_date, cost_line, cluster, workload_id, model, application, team, currency, gpu_us,
        cost_micros, cast(0 as bigint) as allocation_micros, cast(0 as bigint) as usage_micros, fully_loaded_micros,
        billing_cost_ratio, rate_card_cost_ratio, estimate_cost_ratio, energy_left_out_ratio
    from nobodys_lines

    union all

    select
        usage_date, 'commitment_unused' as cost_line, 'unallocated' as cluster, 'unallocated' as workload_id,
        'unallocated' as model, 'unallocated' as application, 'unallocated' as team, currency, cast(0 as bigint) as gpu_us,
        cost_micros, cast(0 as bigint) as allocation_micros, cast(0 as bigint) as usage_micros, fully_loaded_micros,
        cast(1 as double) as billing_cost_ratio, cast(0 as double) as rate_card_cost_ratio,
        cast(0 as double) as estimate_cost_ratio, cast(0 as double) as energy_left_out_ratio
    from commitment_lines

),

final as (

    select
        usage_date,
        cost_line,
        cluster,
        workload_id,
        model,
        application,
        team,
        currency,
        gpu_us,
        case when currency <> 'unknown' then {{ from_micros('cost_micros') }} end as cost,
        case when currency <> 'unknown' then {{ from_micros('allocation_micros') }} end as allocation_cost,
        case when currency <> 'unknown' then {{ from_micros('usage_micros') }} end as usage_cost,
        case when currency <> 'unknown' then {{ from_micros('fully_loaded_micros') }} end as fully_loaded_cost,
        billing_cost_ratio,
        rate_card_cost_ratio,
        estimate_cost_ratio,
        energy_left_out_ratio

    from lines

)

select * from final
