{{ config(
    materialized='incremental', incremental_strategy='replace_days', meta={'days': 'priced'},
    on_schema_change='append_new_columns'
) }}

with

held_hours as (

    select * from {{ ref('int_held_hours') }}
    where {{ in_priced_days('usage_date') }}

),

rates as (

    select * from {{ ref('int_device_hours_rated') }}
    where {{ in_priced_days('usage_date') }}

),

spans as (

    select * from {{ ref('int_idle_spans_clipped') }}
    where {{ in_priced_days('usage_date') }}

),

held_priced as (

    select
        held_hours.*,
        coalesce(rates.currency, 'unknown') as currency,
        held_hours.idle_us * rates.cost_per_gpu_us as idle_cost

    from held_hours
    left join rates
        on
            held_hours.hour_start_at = rates.hour_start_at
            and held_hours.cluster = rates.cluster
            and held_hours.gpu_id = rates.gpu_id

),

held_summed as (

    select
        usage_date,
        cluster,
        gpu_id,
        currency,
        max(node) as node,
        sum(held_us) as held_us,
        sum(covered_us) as covered_us,
        sum(idle_us) as idle_us,
        sum(idle_0_us) as idle_0_us,
        sum(idle_10_us) as idle_10_us,
        sum(idle_25_us) as idle_25_us,
        sum(idle_cost) as idle_cost

    from held_priced
    group by usage_date, cluster, gpu_id, currency

),

spans_numbered as (

    {{ adjoining_spans('spans', ['usage_date', 'cluster', 'slot_id', 'run_id']) }}

),

-- stitched across hours, but not across midnight: a day's row depends on that day alone
day_spans as (

    select
        usage_date,
        cluster,
        gpu_id,
        slot_id,
        run_id,
        cast(sum(idle_minutes) as bigint) as idle_minutes

    from spans_numbered
    group by usage_date, cluster, gpu_id, slot_id, run_id, span_number

),

longest_spans as (

    select
        usage_date,
        cluster,
        gpu_id,
        max(idle_minutes) as longest_idle_minutes

    from day_spans
    group by usage_date, cluster, gpu_id

),

final as (

    select
        held_summed.usage_date,
        held_summed.gpu_id,
        held_summed.currency,
        held_summed.cluster,
        held_summed.node,
        held_summed.held_us / 3.6e9 as held_hours,
        held_summed.covered_us / 3.6e9 as covered_hours,
        held_summed.idle_us / 3.6e9 as idle_hours,
        held_summed.idle_0_us / 3.6e9 as idle_hours_at_0pct,
        held_summed.idle_10_us / 3.6e9 as idle_hours_at_10pct,
        held_summed.idle_25_us / 3.6e9 as idle_hours_at_25pct,
        coalesce(longest_spans.longest_idle_minutes, 0) as longest_idle_minutes,
        cast(held_summed.idle_cost as decimal(18, 6)) as idle_cost

    from held_summed
    left join longest_spans
        on
            held_summed.usage_date = longest_spans.usage_date
            and held_summed.cluster = longest_spans.cluster
            and held_summed.gpu_id = longest_spans.gpu_id

)

select * from final
