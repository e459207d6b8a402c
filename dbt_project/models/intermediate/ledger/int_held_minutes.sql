-- One holder's part of a slot in a minute, divided into suspended, unobserved, idle, throttled, underfilled and
-- productive time: GPU-microseconds, weighted by share and slot fraction; and which rule takes its idle time: work was
-- waiting (8), memory was held (9), or neither (10). The rules for training look half an hour around the minute, never
-- at the whole life of a run (semantics 5).

with

spans as (

    select * from {{ ref('int_held_spans') }}

),

slot_minutes as (

    select * from {{ ref('int_slot_minutes') }}

),

waiting as (

    select * from {{ ref('int_waiting_minutes') }}

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
        spans.workload_id,
        spans.kind in ('training', 'batch') as is_training,
        spans.held_from_at,
        pieces.piece_us * spans.share * spans.slot_fraction as held_us,
        pieces.piece_us * spans.share * spans.slot_fraction * spans.suspended_ratio as suspended_us,
        pieces.piece_us * spans.share * spans.slot_fraction * (1.0 - spans.suspended_ratio)
            * coalesce(slot_minutes.covered_ratio, 0.0) as covered_us,
        coalesce(slot_minutes.idle_ratio, 0.0) as idle_ratio,
        slot_minutes.idle_0_ratio,
        slot_minutes.idle_10_ratio,
        slot_minutes.idle_25_ratio,
        coalesce(slot_minutes.throttled_ratio, 0.0) as throttled_ratio,
        coalesce(slot_minutes.underfilled_ratio, 0.0) as underfilled_ratio,
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

),

active as (

    select
        slot_run_number,
        run_number,
        minute_start_at

    from observed
    where is_training and covered_us > 0 and idle_ratio < 1.0
    group by slot_run_number, run_number, minute_start_at

),

first_active as (

    select
        run_number,
        min(minute_start_at) as first_active_at

    from active
    group by run_number

),

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

reasoned as (

    select
        observed.hold_number,
        observed.minute_start_at,
        observed.usage_date,
        observed.held_us,
        observed.suspended_us,
        observed.covered_us,
        observed.covered_us * observed.idle_ratio as idle_us,
        observed.covered_us * observed.throttled_ratio as throttled_us,
        observed.covered_us * (1.0 - observed.idle_ratio - observed.throttled_ratio)
            * observed.underfilled_ratio as underfilled_us,
        observed.idle_0_ratio,
        observed.idle_10_ratio,
        observed.idle_25_ratio,
        observed.activity_ratio,
        observed.signal,
        observed.gap_reason,
        observed.memory_bytes,
        observed.joules_per_held_us,
        case
            when observed.covered_us = 0 or observed.idle_ratio = 0 then ''
            when waiting.workload_id is not null then 'waiting_requests'
            when
                observed.is_training
                and observed.piece_start_at < observed.held_from_at + interval {{ var('startup_minutes') }} minute
                and (first_active.first_active_at is null or observed.minute_start_at < first_active.first_active_at)
                then 'startup'
            when observed.is_training and (observed.idle_ratio < 1.0 or gap_minutes.slot_run_number is not null) then 'stall'
            when observed.holds_memory then 'reserved_memory'
            else 'idle_compute'
        end as idle_reason

    from observed
    left join waiting
        on observed.workload_id = waiting.workload_id and observed.minute_start_at = waiting.minute_start_at
    left join first_active on observed.run_number = first_active.run_number
    left join gap_minutes
        on
            observed.slot_run_number = gap_minutes.slot_run_number
            and observed.minute_start_at = gap_minutes.minute_start_at

)

select * from reasoned
