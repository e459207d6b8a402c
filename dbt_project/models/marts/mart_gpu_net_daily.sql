{{ config(
    materialized='incremental', incremental_strategy='replace_days', meta={'days': 'priced'},
    on_schema_change='append_new_columns'
) }}

with

ledger as (

    select * from {{ ref('fct_gpu_ledger_hourly') }}
    where {{ in_priced_days('usage_date') }}

),

commitments as (

    select * from {{ ref('int_commitment_unused_hours') }}
    where {{ in_priced_days('usage_date') }}

),

goodput as (

    select
        usage_date,
        cluster,
        gpu_model,
        currency,
        sum(goodput_us) as goodput_us

    from {{ ref('int_goodput_hours') }}
    where {{ in_priced_days('usage_date') }}
    group by usage_date, cluster, gpu_model, currency

),

work as (

    select
        usage_date,
        cluster,
        gpu_model,
        currency,
        sum(tokens_useful) as tokens_useful,
        sum(successful_request_count) as successful_request_count

    from {{ ref('int_model_work_hourly') }}
    where {{ in_priced_days('usage_date') }}
    group by usage_date, cluster, gpu_model, currency

),

-- integer microseconds, so that the states add up to the capacity to the last one
capacity_summed as (

    select
        usage_date,
        cluster,
        gpu_model,
        currency,
        cast(sum(gpu_microseconds) as bigint) as capacity_us,
        cast(sum(case when state = 'out_of_service' then gpu_microseconds else 0 end) as bigint) as out_of_service_us,
        cast(sum(case when state = 'unallocated' then gpu_microseconds else 0 end) as bigint) as unallocated_us,
        cast(sum(case when state = 'borrowed' then gpu_microseconds else 0 end) as bigint) as borrowed_us,
        cast(sum(case when state = 'unobserved' then gpu_microseconds else 0 end) as bigint) as unobserved_us,
        cast(sum(case when state = 'productive' then gpu_microseconds else 0 end) as bigint) as productive_us,
        cast(sum(case when is_ghost then gpu_microseconds else 0 end) as bigint) as ghost_us,
        sum(cost) as cost,
        -- no ghost time costs 0, time without a price has no cost
        sum(case when is_ghost then cost when cost is not null then 0 end) as ghost_cost,
        sum(energy_kwh) as energy_kwh,
        sum(case when is_ghost then energy_kwh when energy_kwh is not null then 0 end) as ghost_energy_kwh

    from ledger
    group by usage_date, cluster, gpu_model, currency

),

-- money without hours: no device carries it, so it belongs to no cluster
commitments_summed as (

    select
        usage_date,
        'unallocated' as cluster,
        'unknown' as gpu_model,
        currency,
        cast(0 as bigint) as capacity_us,
        cast(0 as bigint) as out_of_service_us,
        cast(0 as bigint) as unallocated_us,
        cast(0 as bigint) as borrowed_us,
        cast(0 as bigint) as unobserved_us,
        cast(0 as bigint) as productive_us,
        cast(0 as bigint) as ghost_us,
        sum(cost) as cost,
        sum(cost) as ghost_cost,
        cast(null as double) as energy_kwh,
        cast(null as double) as ghost_energy_kwh

    from commitments
    group by usage_date, currency

),

unioned as (

    select * from capacity_summed
    union all
    select * from commitments_summed

),

held_added as (

    select
        unioned.*,
        capacity_us - out_of_service_us - unallocated_us - borrowed_us as held_us,
        capacity_us - out_of_service_us as in_service_us

    from unioned

),

ratios_added as (

    select
        held_added.*,
        1 - cast(unobserved_us as double) / nullif(held_us, 0) as coverage_ratio,
        cast(productive_us as double) / nullif(in_service_us, 0) as gpu_net_ratio_low,
        cast(productive_us + unobserved_us as double) / nullif(in_service_us, 0) as gpu_net_ratio_high,
        cast(ghost_us as double) / nullif(in_service_us - unobserved_us, 0) as ghost_ratio

    from held_added

),

work_added as (

    select
        ratios_added.*,
        goodput.goodput_us,
        work.tokens_useful,
        work.successful_request_count

    from ratios_added
    left join goodput
        on
            ratios_added.usage_date = goodput.usage_date
            and ratios_added.cluster = goodput.cluster
            and ratios_added.gpu_model = goodput.gpu_model
            and ratios_added.currency = goodput.currency
    left join work
        on
            ratios_added.usage_date = work.usage_date
            and ratios_added.cluster = work.cluster
            and ratios_added.gpu_model = work.gpu_model
            and ratios_added.currency = work.currency

),

final as (

    select
        work_added.usage_date,
        work_added.cluster,
        work_added.gpu_model,
        work_added.currency,
        cast(capacity_us as double) / 3.6e9 as capacity_gpu_hours,
        cast(out_of_service_us as double) / 3.6e9 as out_of_service_gpu_hours,
        cast(unallocated_us as double) / 3.6e9 as unallocated_gpu_hours,
        cast(borrowed_us as double) / 3.6e9 as borrowed_gpu_hours,
        cast(held_us as double) / 3.6e9 as held_gpu_hours,
        cast(unobserved_us as double) / 3.6e9 as unobserved_gpu_hours,
        cast(ghost_us as double) / 3.6e9 as ghost_gpu_hours,
        cast(productive_us as double) / 3.6e9 as productive_gpu_hours,
        coverage_ratio,
        -- rounded, because 1 - 0.05 must not miss a floor of 0.95 by the last bit
        case
            when round(coverage_ratio, 9) >= cast({{ var('coverage_floor_ratio') }} as double) then gpu_net_ratio_low
        end as gpu_net_ratio,
        gpu_net_ratio_low,
        gpu_net_ratio_high,
        ghost_ratio,
        cast(ghost_cost as decimal(18, 6)) as ghost_cost,
        cast(cost as decimal(18, 6)) as cost,
        {{ in_reporting_currency('cost') }} as cost_reporting,
        {{ in_reporting_currency('ghost_cost') }} as ghost_cost_reporting,
        coalesce(exchange_rates.reporting_currency, 'unknown') as reporting_currency,
        energy_kwh,
        ghost_energy_kwh,
        cast(goodput_us / 3.6e9 as double) as goodput_gpu_hours,
        cast(goodput_us / nullif(in_service_us, 0) as double) as goodput_ratio,
        cast(tokens_useful as double) as tokens_useful,
        cast(successful_request_count as double) as successful_request_count,
        cast(tokens_useful / nullif(in_service_us / 3.6e9, 0) as double) as useful_tokens_per_gpu_hour,
        cast(successful_request_count / nullif(in_service_us / 3.6e9, 0) as double) as successful_requests_per_gpu_hour

    from work_added
    {{ join_exchange_rate('work_added') }}

)

select * from final
