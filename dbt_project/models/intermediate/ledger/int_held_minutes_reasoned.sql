-- Which rule takes the idle time of a held minute (semantics 5): work was waiting (8), memory was held (9), or
-- neither (10). The rules for training look half an hour around the minute, never at the whole life of a run.

with

minutes as (

    select * from {{ ref('int_held_minutes') }}

),

waiting as (

    select * from {{ ref('int_waiting_minutes') }}

),

active as (

    select
        slot_id,
        run_id,
        minute_start_at,
        min(held_from_at) as held_from_at

    from minutes
    where kind in ('training', 'batch') and active_us > 1e-3
    group by slot_id, run_id, minute_start_at

),

first_active as (

    select
        run_id,
        min(minute_start_at) as first_active_at

    from active
    group by run_id

),

gaps as (

    select
        slot_id,
        run_id,
        minute_start_at + interval 1 minute as gap_from_at,
        next_active_at as gap_until_at

    from (
        select
            slot_id,
            run_id,
            minute_start_at,
            lead(minute_start_at) over (
                partition by slot_id, run_id order by minute_start_at nulls last
            ) as next_active_at
        from active
    ) as followed
    where
        next_active_at > minute_start_at + interval 1 minute
        and next_active_at <= minute_start_at + interval 1 minute + interval {{ var('stall_minutes') }} minute

),

gap_minutes as (

    select
        slot_id,
        run_id,
        {{ each_touched('minute', 'gap_from_at', 'gap_until_at') }} as minute_start_at

    from gaps

),

reasoned as (

    select
        minutes.*,
        case
            when minutes.idle_us <= 0 then ''
            when waiting.workload_id is not null then 'waiting_requests'
            when
                minutes.kind in ('training', 'batch')
                and minutes.piece_start_at < minutes.held_from_at + interval {{ var('startup_minutes') }} minute
                and (first_active.first_active_at is null or minutes.minute_start_at < first_active.first_active_at)
                then 'startup'
            when
                minutes.kind in ('training', 'batch')
                and (active.slot_id is not null or gap_minutes.slot_id is not null)
                then 'stall'
            when minutes.holds_memory then 'reserved_memory'
            else 'idle_compute'
        end as idle_reason

    from minutes
    left join waiting
        on minutes.workload_id = waiting.workload_id and minutes.minute_start_at = waiting.minute_start_at
    left join first_active on minutes.run_id = first_active.run_id
    left join active
        on
            minutes.slot_id = active.slot_id
            and minutes.run_id = active.run_id
            and minutes.minute_start_at = active.minute_start_at
    left join gap_minutes
        on
            minutes.slot_id = gap_minutes.slot_id
            and minutes.run_id = gap_minutes.run_id
            and minutes.minute_start_at = gap_minutes.minute_start_at

)

select * from reasoned
