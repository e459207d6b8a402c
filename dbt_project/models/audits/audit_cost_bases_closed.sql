-- The promise of semantics 7 on the three bases: fully loaded cost is all the money there is (of the ledger and of unused
-- commitments), shared out and lost nowhere; and no workload is charged less for what it held than for what it used, nor
-- less in full than for what it held. (The order says something only where no price is below zero, as after a refund.)
-- A day that does not hold keeps the build from being published: compare the workloads' rows of
-- `mart_workload_gpu_hours_daily` with the ledger.

{{ config(
    materialized='incremental', incremental_strategy='replace_days', meta={'days': 'priced'},
    on_schema_change='append_new_columns'
) }}

with

ledger as (

    select * from {{ ref('fct_gpu_ledger_hourly') }}
    where cost is not null and {{ in_priced_days('usage_date') }}

),

commitments as (

    select * from {{ ref('int_commitment_unused_hours') }}
    where {{ in_priced_days('usage_date') }}

),

workload_days as (

    select * from {{ ref('mart_workload_gpu_hours_daily') }}
    where fully_loaded_cost is not null and {{ in_priced_days('usage_date') }}

),

money as (

    select usage_date, currency, cost from ledger
    union all
    select usage_date, currency, cost from commitments

),

promised_days as (

    select
        usage_date,
        currency,
        sum(cost) as cost,
        min(cost) < 0 as has_refund

    from money
    group by usage_date, currency

),

held_days as (

    select
        usage_date,
        currency,
        sum(cost) as cost,
        sum(case when state = 'productive' then cost else 0 end) as productive_cost

    from ledger
    where workload_id <> 'unallocated'
    group by usage_date, currency

),

measured_days as (

    select
        usage_date,
        currency,
        sum(fully_loaded_cost) as fully_loaded_cost,
        sum(case when workload_id <> 'unallocated' then allocation_cost else 0 end) as allocation_cost,
        sum(case when workload_id <> 'unallocated' then usage_cost else 0 end) as usage_cost,
        count(
            case when usage_cost > allocation_cost or allocation_cost > fully_loaded_cost then 1 end
        ) as out_of_order_count

    from workload_days
    group by usage_date, currency

),

compared as (

    select
        coalesce(promised_days.usage_date, measured_days.usage_date) as usage_date,
        coalesce(promised_days.currency, measured_days.currency) as currency,
        cast(coalesce(promised_days.cost, 0) as decimal(18, 6)) as promised,
        cast(coalesce(measured_days.fully_loaded_cost, 0) as decimal(18, 6)) as measured,
        cast(coalesce(measured_days.fully_loaded_cost, 0) - coalesce(promised_days.cost, 0) as decimal(18, 6)) as difference,
        cast(
            coalesce(measured_days.allocation_cost, 0) - coalesce(held_days.cost, 0) as decimal(18, 6)
        ) as allocation_difference,
        cast(
            coalesce(measured_days.usage_cost, 0) - coalesce(held_days.productive_cost, 0) as decimal(18, 6)
        ) as usage_difference,
        case
            when coalesce(promised_days.has_refund, false) then 0
            else coalesce(measured_days.out_of_order_count, 0)
        end as out_of_order_count

    from promised_days
    full outer join measured_days
        on promised_days.usage_date = measured_days.usage_date and promised_days.currency = measured_days.currency
    left join held_days
        on promised_days.usage_date = held_days.usage_date and promised_days.currency = held_days.currency

),

final as (

    select
        compared.*,
        difference = 0 and allocation_difference = 0 and usage_difference = 0 and out_of_order_count = 0 as holds

    from compared

)

select * from final
