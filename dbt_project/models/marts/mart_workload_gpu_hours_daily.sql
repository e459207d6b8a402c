{{ config(
    materialized='incremental', incremental_strategy='replace_days', meta={'days': 'priced'},
    on_schema_change='append_new_columns'
) }}

with

ledger as (

    select * from {{ ref('fct_gpu_ledger_hourly') }}
    where {{ in_priced_days('usage_date') }}

),

cost_bases as (

    select * from {{ ref('int_ledger_cost_bases_hourly') }}
    where {{ in_priced_days('usage_date') }}

),

run_ends as (

    select * from {{ ref('int_run_ends_daily') }}
    where {{ in_priced_days('usage_date') }}

),

goodput as (

    select
        usage_date,
        workload_id,
        currency,
        sum(goodput_us) as goodput_us,
        cast(sum(held_us) as double) as judged_us

    from {{ ref('int_goodput_hours') }}
    where {{ in_priced_days('usage_date') }}
    group by usage_date, workload_id, currency

),

workloads as (

    select * from {{ ref('int_workloads_named_daily') }}
    where {{ in_priced_days('usage_date') }}

),

held as (

    select
        ledger.usage_date,
        ledger.workload_id,
        ledger.currency,
        ledger.state,
        ledger.is_ghost,
        ledger.gpu_microseconds,
        ledger.cost,
        coalesce(run_ends.end_kind, 'other') as end_kind

    from ledger
    left join run_ends
        on
            ledger.usage_date = run_ends.usage_date
            and ledger.run_id = run_ends.run_id
    where ledger.workload_id <> 'unallocated'

),

held_summed as (

    select
        usage_date,
        workload_id,
        currency,
        cast(sum(gpu_microseconds) as bigint) as held_us,
        cast(sum(case when cost is not null then gpu_microseconds else 0 end) as bigint) as priced_us,
        cast(sum(case when state = 'productive' then gpu_microseconds else 0 end) as bigint) as productive_us,
        cast(sum(
            case when state in ('pipeline_waiting', 'reserved_memory', 'idle_compute') then gpu_microseconds else 0 end
        ) as bigint) as idle_us,
        cast(sum(case when is_ghost then gpu_microseconds else 0 end) as bigint) as ghost_us,
        cast(sum(case when state = 'unobserved' then gpu_microseconds else 0 end) as bigint) as unobserved_us,
        cast(sum(case when end_kind = 'failed' then gpu_microseconds else 0 end) as bigint) as failed_us,
        cast(sum(case when end_kind = 'timed_out' then gpu_microseconds else 0 end) as bigint) as timed_out_us,
        cast(sum(case when end_kind = 'cancelled' then gpu_microseconds else 0 end) as bigint) as cancelled_us,
        cast(sum(case when end_kind = 'preempted' then gpu_microseconds else 0 end) as bigint) as preempted_us

    from held
    group by usage_date, workload_id, currency

),

costs_summed as (

    select
        usage_date,
        workload_id,
        currency,
        sum(allocation_cost) as allocation_cost,
        sum(usage_cost) as usage_cost,
        sum(fully_loaded_cost) as fully_loaded_cost

    from cost_bases
    group by usage_date, workload_id, currency

),

-- of the time nobody held only the money that no workload could carry is left
costs_to_show as (

    select * from costs_summed
    where workload_id <> 'unallocated' or fully_loaded_cost <> 0

),

joined as (

    select
        coalesce(held_summed.usage_date, costs_to_show.usage_date) as usage_date,
        coalesce(held_summed.workload_id, costs_to_show.workload_id) as workload_id,
        coalesce(held_summed.currency, costs_to_show.currency) as currency,
        coalesce(held_summed.held_us, 0) as held_us,
        coalesce(held_summed.priced_us, 0) as priced_us,
        coalesce(held_summed.productive_us, 0) as productive_us,
        coalesce(held_summed.idle_us, 0) as idle_us,
        coalesce(held_summed.ghost_us, 0) as ghost_us,
        coalesce(held_summed.unobserved_us, 0) as unobserved_us,
        coalesce(held_summed.failed_us, 0) as failed_us,
        coalesce(held_summed.timed_out_us, 0) as timed_out_us,
        coalesce(held_summed.cancelled_us, 0) as cancelled_us,
        coalesce(held_summed.preempted_us, 0) as preempted_us,
        costs_to_show.allocation_cost,
        costs_to_show.usage_cost,
        costs_to_show.fully_loaded_cost

    from held_summed
    full outer join costs_to_show
        on
            held_summed.usage_date = costs_to_show.usage_date
            and held_summed.workload_id = costs_to_show.workload_id
            and held_summed.currency = costs_to_show.currency

),

final as (

    select
        joined.usage_date,
        joined.workload_id,
        joined.currency,
        coalesce(workloads.cluster, 'unallocated') as cluster,
        coalesce(workloads.workload, joined.workload_id) as workload,
        -- of money that no workload carries there need be no row of the day's ledger
        coalesce(workloads.application, 'unallocated') as application,
        coalesce(workloads.team, 'unallocated') as team,
        coalesce(workloads.model, 'unknown') as model,
        coalesce(workloads.kind, 'unknown') as kind,
        cast(joined.held_us as double) / 3.6e9 as held_gpu_hours,
        cast(joined.priced_us as double) / 3.6e9 as priced_gpu_hours,
        cast(joined.productive_us as double) / 3.6e9 as productive_gpu_hours,
        cast(joined.idle_us as double) / 3.6e9 as idle_gpu_hours,
        cast(joined.ghost_us as double) / 3.6e9 as ghost_gpu_hours,
        cast(joined.unobserved_us as double) / 3.6e9 as unobserved_gpu_hours,
        cast(joined.failed_us as double) / 3.6e9 as failed_gpu_hours,
        cast(joined.timed_out_us as double) / 3.6e9 as timed_out_gpu_hours,
        cast(joined.cancelled_us as double) / 3.6e9 as cancelled_gpu_hours,
        cast(joined.preempted_us as double) / 3.6e9 as preempted_gpu_hours,
        cast(goodput.goodput_us / 3.6e9 as double) as goodput_gpu_hours,
        cast(goodput.goodput_us / nullif(goodput.judged_us, 0) as double) as goodput_ratio,
        1 - cast(joined.unobserved_us as double) / nullif(joined.held_us, 0) as coverage_ratio,
        cast(joined.allocation_cost as decimal(18, 6)) as allocation_cost,
        cast(joined.usage_cost as decimal(18, 6)) as usage_cost,
        cast(joined.fully_loaded_cost as decimal(18, 6)) as fully_loaded_cost,
        {% for basis in ['allocation', 'usage', 'fully_loaded'] %}
        {{ in_reporting_currency('joined.' ~ basis ~ '_cost') }} as {{ basis }}_cost_reporting,
        {% endfor %}
        coalesce(exchange_rates.reporting_currency, 'unknown') as reporting_currency

    from joined
    {{ join_exchange_rate('joined') }}
    left join workloads
        on
            joined.usage_date = workloads.usage_date
            and joined.workload_id = workloads.workload_id
    left join goodput
        on
            joined.usage_date = goodput.usage_date
            and joined.workload_id = goodput.workload_id
            and joined.currency = goodput.currency

)

select * from final
