-- The hourly ledger before money. Per device and hour the parts are rounded down to whole microseconds, and the
-- remaining ones go one each to the parts with the largest fractions, ties to the lowest id (semantics 1): the parts
-- of a device-hour add up to its time in inventory exactly.

{{ config(materialized='incremental', incremental_strategy='replace_days') }}

with

parts as (

    select * from {{ ref('int_gpu_ledger_parts') }}

),

device_hours as (

    select * from {{ ref('int_device_hours') }}
    where {{ in_touched_days('usage_date') }}

),

states as (

    select * from {{ ref('dim_states') }}

),

-- a thousandth of a microsecond is below what floating point keeps of an hour
rounded_down as (

    select
        parts.*,
        states.state_order,
        states.is_ghost,
        floor(round(parts.us, 3)) as whole_us,
        round(parts.us, 3) - floor(round(parts.us, 3)) as fraction_us

    from parts
    inner join states on parts.state = states.state

),

ranked as (

    select
        rounded_down.*,
        sum(whole_us) over (partition by cluster, gpu_id, hour_start_at) as device_whole_us,
        row_number() over (
            partition by cluster, gpu_id, hour_start_at
            order by
                round(fraction_us, 3) desc nulls last,
                slot_id nulls last,
                run_id nulls last,
                state_order nulls last,
                state_reason nulls last,
                signal nulls last
        ) as remainder_rank,
        sum(energy_joules) over (partition by cluster, gpu_id, hour_start_at) as device_held_joules,
        sum(case when run_id = 'unallocated' then us else 0 end) over (
            partition by cluster, gpu_id, hour_start_at
        ) as device_unheld_us,
        sum(case when state = 'unobserved' then us else 0 end) over (
            partition by cluster, gpu_id, hour_start_at
        ) as device_unobserved_us

    from rounded_down

),

exact as (

    select
        ranked.hour_start_at,
        ranked.usage_date,
        ranked.cluster,
        ranked.node,
        ranked.gpu_id,
        ranked.gpu_model,
        ranked.slot_id,
        ranked.run_id,
        ranked.workload_id,
        ranked.state,
        ranked.state_reason,
        {{ signal_name('ranked.signal') }} as signal_source,
        ranked.is_ghost,
        cast(
            ranked.whole_us
            + case when ranked.remainder_rank <= device_hours.inventory_us - ranked.device_whole_us then 1 else 0 end
            as bigint
        ) as gpu_microseconds,
        -- what the holders' minutes did not use was used while nobody held the device; of one that was held all along,
        -- while nobody saw its holders
        round(case
            when ranked.run_id = 'unallocated'
                then greatest(0.0, device_hours.energy_joules - coalesce(ranked.device_held_joules, 0.0))
                    * ranked.us / nullif(ranked.device_unheld_us, 0)
            when
                ranked.state = 'unobserved'
                and ranked.device_unheld_us = 0
                -- more than two sums of the same readings may differ by
                and round(device_hours.energy_joules - coalesce(ranked.device_held_joules, 0.0), 6) > 0
                then coalesce(ranked.energy_joules, 0.0)
                    + (device_hours.energy_joules - coalesce(ranked.device_held_joules, 0.0))
                    * ranked.us / nullif(ranked.device_unobserved_us, 0)
            else ranked.energy_joules
        end / 3.6e6, 12) as energy_kwh

    from ranked
    inner join device_hours
        on
            ranked.cluster = device_hours.cluster
            and ranked.gpu_id = device_hours.gpu_id
            and ranked.hour_start_at = device_hours.hour_start_at

)

select
    exact.*,
    gpu_microseconds / 3.6e9 as gpu_hours

from exact
where gpu_microseconds > 0
