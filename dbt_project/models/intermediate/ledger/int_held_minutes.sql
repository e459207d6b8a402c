-- One holder's part of a slot in a minute, divided into suspended, unobserved, idle, throttled, underfilled and
-- productive time: GPU-microseconds, weighted by share and slot fraction (semantics 5, rules 4, 5, 11, 13, 14).
-- Which of the rules 8 to 10 the idle time falls under is decided on top of this.

with

spans as (

    select * from {{ ref('int_slot_spans') }}
    where held_share > 0 and not is_out_of_service

),

holds as (

    select * from {{ ref('int_slot_holds') }}

),

runs as (

    select * from {{ ref('int_runs') }}

),

slot_minutes as (

    select * from {{ ref('int_slot_minutes') }}

),

held_spans as (

    select
        spans.cluster,
        spans.node,
        spans.gpu_id,
        spans.gpu_model,
        spans.slot_id,
        spans.usage_date,
        holds.run_id,
        spans.started_at,
        spans.ended_at,
        -- shares above 1 in sum are scaled to 1
        sum(holds.share) / greatest(1.0, max(spans.held_share)) as share,
        max(spans.slot_fraction) as slot_fraction

    from spans
    inner join holds
        on
            spans.cluster = holds.cluster
            and spans.slot_id = holds.slot_id
            and spans.usage_date = holds.usage_date
            and holds.started_at <= spans.started_at
            and holds.ended_at >= spans.ended_at
    group by
        spans.cluster, spans.node, spans.gpu_id, spans.gpu_model, spans.slot_id, spans.usage_date, holds.run_id,
        spans.started_at, spans.ended_at

),

with_run as (

    select
        held_spans.*,
        runs.workload_id,
        runs.kind,
        runs.held_from_at,
        runs.suspended_ratio

    from held_spans
    inner join runs on held_spans.run_id = runs.run_id

),

in_minutes as (

    select
        with_run.*,
        {{ each_touched('minute', 'with_run.started_at', 'with_run.ended_at') }} as minute_start_at

    from with_run

),

pieces as (

    select
        * exclude (started_at, ended_at),
        greatest(started_at, minute_start_at) as piece_start_at,
        least(ended_at, minute_start_at + interval 1 minute) as piece_end_at

    from in_minutes
    where {{ in_ledger_minutes('minute_start_at') }}

),

observed as (

    select
        pieces.usage_date,
        pieces.minute_start_at,
        pieces.cluster,
        pieces.node,
        pieces.gpu_id,
        pieces.gpu_model,
        pieces.slot_id,
        pieces.run_id,
        pieces.workload_id,
        pieces.kind,
        pieces.held_from_at,
        pieces.piece_start_at,
        {{ microseconds_between('pieces.piece_start_at', 'pieces.piece_end_at') }} * pieces.share as slot_us,
        {{ microseconds_between('pieces.piece_start_at', 'pieces.piece_end_at') }}
            * pieces.share * pieces.slot_fraction as held_us,
        pieces.suspended_ratio,
        coalesce(slot_minutes.covered_ratio, 0.0) as covered_ratio,
        coalesce(slot_minutes.idle_ratio, 0.0) as idle_ratio,
        slot_minutes.idle_0_ratio,
        slot_minutes.idle_10_ratio,
        slot_minutes.idle_25_ratio,
        coalesce(slot_minutes.throttled_ratio, 0.0) as throttled_ratio,
        coalesce(slot_minutes.underfilled_ratio, 0.0) as underfilled_ratio,
        slot_minutes.activity_ratio,
        slot_minutes.signal,
        coalesce(slot_minutes.gap_reason, 'gap') as gap_reason,
        slot_minutes.memory_bytes,
        coalesce(slot_minutes.holds_memory, false) as holds_memory,
        slot_minutes.joules_per_us

    from pieces
    left join slot_minutes
        on
            pieces.cluster = slot_minutes.cluster
            and pieces.slot_id = slot_minutes.slot_id
            and pieces.minute_start_at = slot_minutes.minute_start_at

),

divided as (

    select
        usage_date,
        minute_start_at,
        cluster,
        node,
        gpu_id,
        gpu_model,
        slot_id,
        run_id,
        workload_id,
        kind,
        held_from_at,
        piece_start_at,
        held_us,
        held_us * suspended_ratio as suspended_us,
        held_us * (1.0 - suspended_ratio) * (1.0 - covered_ratio) as unobserved_us,
        held_us * (1.0 - suspended_ratio) * covered_ratio as covered_us,
        held_us * (1.0 - suspended_ratio) * covered_ratio * idle_ratio as idle_us,
        held_us * (1.0 - suspended_ratio) * covered_ratio * (1.0 - idle_ratio) as active_us,
        held_us * (1.0 - suspended_ratio) * covered_ratio * throttled_ratio as throttled_us,
        held_us * (1.0 - suspended_ratio) * covered_ratio
            * (1.0 - idle_ratio - throttled_ratio) * underfilled_ratio as underfilled_us,
        held_us * (1.0 - suspended_ratio) * covered_ratio * coalesce(idle_0_ratio, 0.0) as idle_0_us,
        held_us * (1.0 - suspended_ratio) * covered_ratio * coalesce(idle_10_ratio, 0.0) as idle_10_us,
        held_us * (1.0 - suspended_ratio) * covered_ratio * coalesce(idle_25_ratio, 0.0) as idle_25_us,
        activity_ratio,
        coalesce(signal, 0) as signal,
        gap_reason,
        memory_bytes,
        holds_memory,
        joules_per_us * slot_us / nullif(held_us, 0) as joules_per_held_us

    from observed

)

select * from divided
