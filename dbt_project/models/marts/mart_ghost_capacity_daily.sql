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

workloads as (

    select * from {{ ref('int_workloads_named_daily') }}
    where {{ in_priced_days('usage_date') }}

),

states as (

    select * from {{ ref('dim_states') }}

),

time_summed as (

    select
        usage_date,
        cluster,
        gpu_model,
        workload_id,
        state,
        currency,
        cast(sum(gpu_microseconds) as bigint) as gpu_microseconds,
        sum(cost) as cost

    from ledger
    group by usage_date, cluster, gpu_model, workload_id, state, currency

),

-- money without hours: no device carries it, so it belongs to no cluster
commitments_summed as (

    select
        usage_date,
        'unallocated' as cluster,
        'unknown' as gpu_model,
        'unallocated' as workload_id,
        'commitment_unused' as state,
        currency,
        cast(0 as bigint) as gpu_microseconds,
        sum(cost) as cost

    from commitments
    group by usage_date, currency

),

steps as (

    select * from time_summed
    union all
    select * from commitments_summed

),

final as (

    select
        steps.usage_date,
        steps.cluster,
        steps.gpu_model,
        steps.workload_id,
        steps.state,
        steps.currency,
        case
            when steps.workload_id = 'unallocated' then 'unallocated'
            else coalesce(workloads.team, 'unknown')
        end as team,
        states.state_order,
        states.is_ghost,
        cast(steps.gpu_microseconds as double) / 3.6e9 as gpu_hours,
        cast(steps.cost as decimal(18, 6)) as cost,
        {{ in_reporting_currency('steps.cost') }} as cost_reporting,
        coalesce(exchange_rates.reporting_currency, 'unknown') as reporting_currency

    from steps
    inner join states
        on steps.state = states.state
    left join workloads
        on
            steps.usage_date = workloads.usage_date
            and steps.workload_id = workloads.workload_id
    {{ join_exchange_rate('steps') }}

)

select * from final
