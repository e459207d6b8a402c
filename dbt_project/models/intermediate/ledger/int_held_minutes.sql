-- One holder's part of a slot in a minute, divided by the rules 6 to 13 (semantics 5): the first that matches takes its
-- part, and the parts add up to what was held. A replica beyond need loses all its covered time; a card that waits for a
-- busier sibling loses what it did not do, and what is left counts as active; else idle time goes to the rule that
-- explains it: work was waiting (8), memory was held (9), or neither (10). The rules for training look half an hour around
-- the minute, never at the whole life of a run.

-- (The minutes are no common table expression: used twice, they would be written down in full before either use.)

{{ config(materialized='view', database='scratch') }}

with

spans as (

    select * from {{ ref('int_held_spans') }}

),

waiting as (

    select * from {{ ref('int_waiting_minutes') }}

),

surplus as (

    select * from {{ ref('int_surplus_minutes') }}

),

unbalanced as (

    select * from {{ ref('int_unbalanced_minutes') }}

),

oversized as (

    select * from {{ ref('int_oversized_slots') }}

),

training_holds as (

    select hold_number
    from spans
    where kind in ('training', 'batch')

),

active as (

    select
        observed.slot_run_number,
        observed.run_number,
        observed.minute_start_at

    from {{ ref('int_held_minutes_observed') }} as observed
    inner join training_holds on observed.hold_number = training_holds.hold_number
    where observed.covered_us > 0 and observed.idle_ratio < 1.0

),

first_active as (

    select
        run_number,
        min(minute_start_at) as first_active_at

    from active
    group by run_number

),

-- (a minute with several holds of a run on a slot is followed by itself, which is no gap)
gaps as (

    select
        slot_run_number,
        minute_start_at + interval 1 minute as gap_from_at,
        next_active_at as gap_until_at

    from (
        select
            slot_run_number,
            minute_start_at,
            lead(minute_start_at) over (partition by slot_run_number order by minute_start_at nulls last) as next_active_at
        from active
    ) as followed
    where
        next_active_at > minute_start_at + interval 1 minute
        and next_active_at <= minute_start_at + interval 1 minute + interval {{ var('stall_minutes') }} minute

),

-- minutes in which a training run's idleness is a stall: between two active minutes, or with active time of its own
gap_minutes as (

    select
        slot_run_number,
        {{ each_touched('minute', 'gap_from_at', 'gap_until_at') }} as minute_start_at

    from gaps

),

startup_ends as (

    select
        hold_number,
        slot_run_number,
        held_from_at + interval {{ var('startup_minutes') }} minute as startup_end_at,
        date_trunc('minute', held_from_at + interval {{ var('startup_minutes') }} minute) as minute_start_at

    from spans
    where kind in ('training', 'batch')

),

-- a minute whose held part began within the half hour starts up as a whole, also where its holders change after that
startup_minutes as (

    select distinct
        startup_ends.slot_run_number,
        startup_ends.minute_start_at

    from {{ ref('int_held_minutes_observed') }} as observed
    inner join startup_ends
        on observed.hold_number = startup_ends.hold_number and observed.minute_start_at = startup_ends.minute_start_at
    where observed.piece_start_at < startup_ends.startup_end_at and startup_ends.startup_end_at > startup_ends.minute_start_at

),

reasoned as (

    select
        observed.*,
        surplus.run_number is not null as is_surplus,
        unbalanced.slot_run_number is not null as is_unbalanced,
        coalesce(oversized.fit_ratio, 1.0) as fit_ratio,
        case
            when observed.covered_us = 0 or observed.idle_ratio = 0 then ''
            when waiting.workload_id is not null then 'waiting_requests'
            when
                spans.kind in ('training', 'batch')
                and (
                    observed.piece_start_at < spans.held_from_at + interval {{ var('startup_minutes') }} minute
                    or startup_minutes.slot_run_number is not null
                )
                and (first_active.first_active_at is null or observed.minute_start_at < first_active.first_active_at)
                then 'startup'
            when
                spans.kind in ('training', 'batch')
                and (observed.idle_ratio < 1.0 or gap_minutes.slot_run_number is not null)
                then 'stall'
            when observed.holds_memory then 'reserved_memory'
            else 'idle_compute'
        end as idle_reason

    from {{ ref('int_held_minutes_observed') }} as observed
    inner join spans on observed.hold_number = spans.hold_number
    left join waiting
        on spans.workload_id = waiting.workload_id and observed.minute_start_at = waiting.minute_start_at
    left join first_active on observed.run_number = first_active.run_number
    left join gap_minutes
        on
            observed.slot_run_number = gap_minutes.slot_run_number
            and observed.minute_start_at = gap_minutes.minute_start_at
    left join startup_minutes
        on
            observed.slot_run_number = startup_minutes.slot_run_number
            and observed.minute_start_at = startup_minutes.minute_start_at
    left join surplus
        on observed.run_number = surplus.run_number and observed.minute_start_at = surplus.minute_start_at
    left join unbalanced
        on
            observed.slot_run_number = unbalanced.slot_run_number
            and observed.minute_start_at = unbalanced.minute_start_at
    left join oversized
        on observed.slot_run_number = oversized.slot_run_number and observed.usage_date = oversized.usage_date

),

-- of what the rules 6 and 7 leave: idle time, active time, and the part of that which a held-down clock lost
left_over as (

    select
        reasoned.*,
        case when is_surplus then covered_us else 0.0 end as overprovisioned_us,
        case when is_unbalanced and not is_surplus then covered_us * (1.0 - activity_ratio) else 0.0 end as unbalanced_us,
        case when is_surplus or is_unbalanced then 0.0 else covered_us * idle_ratio end as idle_us,
        case
            when is_surplus then 0.0
            when is_unbalanced then covered_us * activity_ratio
            else covered_us * (1.0 - idle_ratio)
        end as active_us,
        case
            when is_surplus then 0.0
            when is_unbalanced
                then covered_us * activity_ratio * coalesce(throttled_ratio / nullif(1.0 - idle_ratio, 0), 0.0)
            else covered_us * throttled_ratio
        end as throttled_us

    from reasoned

),

-- the active rest goes to the rules 12 and 13, and what they leave was productive
divided as (

    select
        left_over.*,
        (active_us - throttled_us) * (1.0 - fit_ratio) as oversized_us,
        case
            when is_unbalanced or signal not in (1, 2) or active_activity_ratio is null then 0.0
            else
                (active_us - throttled_us) * fit_ratio
                * greatest(
                    0.0,
                    1.0 - least(1.0, active_activity_ratio / fit_ratio) / {{ var('underfilled_activity_ratio') }}
                )
        end as underfilled_us

    from left_over

)

select
    hold_number,
    minute_start_at,
    usage_date,
    held_us,
    suspended_us,
    covered_us,
    overprovisioned_us,
    unbalanced_us,
    idle_us,
    throttled_us,
    oversized_us,
    underfilled_us,
    active_us - throttled_us - oversized_us - underfilled_us as productive_us,
    covered_us * idle_0_ratio as idle_0_us,
    covered_us * idle_10_ratio as idle_10_us,
    covered_us * idle_25_ratio as idle_25_us,
    covered_us * activity_ratio as activity_us,
    covered_us * idle_ratio as idle_activity_us,
    signal,
    gap_reason,
    joules_per_held_us,
    idle_reason

from divided
