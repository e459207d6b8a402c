-- The held minutes summed to hours: wide, by signal and reasons. The ledger and the figures of holders both rest on it.

{{ config(database='scratch') }}

with

minutes as (

    select * from {{ ref('int_held_minutes') }}
    where {{ in_replaced_days('usage_date') }}

),

spans as (

    select * from {{ ref('int_held_spans') }}

),

hours as (

    select
        hold_number,
        date_trunc('hour', minute_start_at) as hour_start_at,
        signal,
        gap_reason,
        idle_reason,
        sum(held_us) as held_us,
        sum(covered_us) as covered_us,
        sum(idle_activity_us) as idle_activity_us,
        sum(idle_0_us) as idle_0_us,
        sum(idle_10_us) as idle_10_us,
        sum(idle_25_us) as idle_25_us,
        sum(activity_us) as activity_us,
        {% for part, us in held_parts() -%}
        sum({{ us }}) as {{ part }}_us,
        sum(({{ us }}) * joules_per_held_us) as {{ part }}_joules{{ ',' if not loop.last }}
        {% endfor %}

    from minutes
    group by hold_number, date_trunc('hour', minute_start_at), signal, gap_reason, idle_reason

),

described as (

    select
        spans.usage_date,
        spans.cluster,
        spans.node,
        spans.gpu_id,
        spans.gpu_model,
        spans.slot_id,
        spans.run_id,
        spans.workload_id,
        hours.*

    from hours
    inner join spans on hours.hold_number = spans.hold_number

)

select * from described
