-- The lines of the ledger with the names of those who are charged, and the lines of bills that are no time of a device.
-- A plain table: a line of a bill that comes into scope later changes days that nothing else touches.

with

allocated as (

    select * from {{ ref('int_cost_allocation_daily') }}

),

workloads as (

    select * from {{ ref('dim_workloads') }}

),

charge_days as (

    select * from {{ ref('int_billing_charge_days') }}

),

ledger_days as (

    select * from {{ ref('int_ledger_billing_costs_daily') }}

),

allocated_lines as (

    select
        allocated.usage_date,
        allocated.cost_line,
        allocated.cluster,
        coalesce(nullif(allocated.team, ''), workloads.team, 'unknown') as team,
        coalesce(nullif(allocated.application, ''), workloads.application, 'unknown') as application,
        coalesce(nullif(allocated.model, ''), workloads.model, 'unknown') as model,
        allocated.workload_id,
        allocated.currency,
        allocated.gpu_us,
        allocated.cost,
        allocated.allocation_cost,
        allocated.usage_cost,
        allocated.fully_loaded_cost,
        allocated.billing_cost_ratio,
        allocated.rate_card_cost_ratio,
        allocated.estimate_cost_ratio,
        allocated.energy_left_out_ratio

    from allocated
    left join workloads on allocated.workload_id = workloads.workload_id

),

-- two names of one consumer (the log's, and the workload's own) are one line
added as (

    select
        usage_date,
        cost_line,
        cluster,
        team,
        application,
        model,
        workload_id,
        currency,
        cast(sum(gpu_us) as bigint) as gpu_us,
        sum(cost) as cost,
        sum(allocation_cost) as allocation_cost,
        sum(usage_cost) as usage_cost,
        sum(fully_loaded_cost) as fully_loaded_cost,
        max(billing_cost_ratio) as billing_cost_ratio,
        max(rate_card_cost_ratio) as rate_card_cost_ratio,
        max(estimate_cost_ratio) as estimate_cost_ratio,
        max(energy_left_out_ratio) as energy_left_out_ratio

    from allocated_lines
    group by usage_date, cost_line, cluster, team, application, model, workload_id, currency

),

-- what stands on a bill and is no time of a device; unused commitments have a line of their own
bill_days as (

    select
        usage_date,
        currency,
        case when line_role = 'commitment_unused' then 0 else non_time_cost end as non_time_cost,
        billed_without_telemetry_cost

    from charge_days

    union all

    select
        usage_date,
        currency,
        second_currency_cost as non_time_cost,
        0 as billed_without_telemetry_cost

    from ledger_days

),

bill_lines as (

    select
        usage_date,
        'non_time' as cost_line,
        currency,
        cast(sum(non_time_cost) as decimal(18, 6)) as cost
    from bill_days
    group by usage_date, currency

    union all

    select
        usage_date,
        'billed_without_telemetry' as cost_line,
        currency,
        cast(sum(billed_without_telemetry_cost) as decimal(18, 6)) as cost
    from bill_days
    group by usage_date, currency

),

lines as (

    select
        usage_date, cost_line, cluster, team, application, model, workload_id, currency, gpu_us,
        cost, allocation_cost, usage_cost, fully_loaded_cost,
        billing_cost_ratio, rate_card_cost_ratio, estimate_cost_ratio, energy_left_out_ratio
    from added

    union all

    select
        usage_date, cost_line, 'unallocated' as cluster, 'unallocated' as team, 'unallocated' as application,
        'unallocated' as model, 'unallocated' as workload_id, currency, cast(0 as bigint) as gpu_us,
        cost, cast(0 as decimal(18, 6)) as allocation_cost, cast(0 as decimal(18, 6)) as usage_cost,
        cast(0 as decimal(18, 6)) as fully_loaded_cost,
        cast(1 as double) as billing_cost_ratio, cast(0 as double) as rate_card_cost_ratio,
        cast(0 as double) as estimate_cost_ratio, cast(0 as double) as energy_left_out_ratio
    from bill_lines
    where cost <> 0

),

final as (

    select
        -- ids
        lines.usage_date,
        lines.cost_line,
        lines.cluster,
        lines.team,
        lines.application,
        lines.model,
        lines.workload_id,
        lines.currency,

        -- time
        cast(gpu_us as double) / 3.6e9 as gpu_hours,
        cast(case when cost_line = 'held' then gpu_us else 0 end as double) / 3.6e9 as held_gpu_hours,
        cast(case when cost_line = 'held' and cost is not null then gpu_us else 0 end as double) / 3.6e9 as priced_gpu_hours,

        -- money
        cast(cost as decimal(18, 6)) as cost,
        cast(allocation_cost as decimal(18, 6)) as allocation_cost,
        cast(usage_cost as decimal(18, 6)) as usage_cost,
        cast(fully_loaded_cost as decimal(18, 6)) as fully_loaded_cost,
        {% for amount in ['cost', 'allocation_cost', 'usage_cost', 'fully_loaded_cost'] %}
        {{ in_reporting_currency('lines.' ~ amount) }} as {{ amount }}_reporting,
        {% endfor %}
        coalesce(exchange_rates.reporting_currency, 'unknown') as reporting_currency,

        -- where the money comes from
        billing_cost_ratio,
        rate_card_cost_ratio,
        estimate_cost_ratio,
        cast(
            case
                when estimate_cost_ratio = 1 then cost
                when cost is not null then round(cast(cost as double) * coalesce(estimate_cost_ratio, 0), 6)
            end as decimal(18, 6)
        ) as estimate_cost,
        energy_left_out_ratio

    from lines
    {{ join_exchange_rate('lines') }}

)

select * from final
