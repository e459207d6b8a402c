-- One holder's part of a slot in a minute, and what the slot did in it: GPU-microseconds held, suspended and covered,
-- weighted by share and slot fraction. The rules read these minutes; int_held_minutes applies them.

{{ config(database='scratch') }}

with

spans as (

    select * from {{ ref('int_held_spans') }}

),

slot_minutes as (

    select * from {{ ref('int_slot_minutes') }}

),

touched as (

    select
        hold_number,
        slot_number,
        started_at,
        ended_at,
        {{ each_touched('minute', 'started_at', 'ended_at') }} as minute_start_at

    from spans

),

pieces as (

    select
        hold_number,
        slot_number,
        minute_start_at,
        greatest(started_at, minute_start_at) as piece_start_at,
        {{ microseconds_between(
            'greatest(started_at, minute_start_at)', 'least(ended_at, minute_start_at + interval 1 minute)'
        ) }} as piece_us

    from touched
    where {{ in_ledger_minutes('minute_start_at') }}

),

observed as (

    select
        pieces.hold_number,
        pieces.minute_start_at,
        pieces.piece_start_at,
        spans.usage_date,
        spans.slot_run_number,
        spans.run_number,
        pieces.piece_us * spans.share * spans.slot_fraction as held_us,
        pieces.piece_us * spans.share * spans.slot_fraction * spans.suspended_ratio as suspended_us,
        pieces.piece_us * spans.share * spans.slot_fraction * (1.0 - spans.suspended_ratio)
            * coalesce(slot_minutes.covered_ratio, 0.0) as covered_us,
        coalesce(slot_minutes.idle_ratio, 0.0) as idle_ratio,
        slot_minutes.idle_0_ratio,
        slot_minutes.idle_10_ratio,
        slot_minutes.idle_25_ratio,
        coalesce(slot_minutes.throttled_ratio, 0.0) as throttled_ratio,
        slot_minutes.active_activity_ratio,
        slot_minutes.activity_ratio,
        coalesce(slot_minutes.signal, 0) as signal,
        coalesce(slot_minutes.gap_reason, 'gap') as gap_reason,
        slot_minutes.memory_bytes,
        coalesce(slot_minutes.holds_memory, false) as holds_memory,
        slot_minutes.joules_per_us / spans.slot_fraction as joules_per_held_us

    from pieces
    inner join spans on pieces.hold_number = spans.hold_number
    left join slot_minutes
        on
            pieces.slot_number = slot_minutes.slot_number
            and pieces.minute_start_at = slot_minutes.minute_start_at

)

select * from observed
