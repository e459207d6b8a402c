-- What share of a slot's time in service in a minute was covered, idle, throttled: the figures by which
-- whoever held a part of that time gets its part of them (semantics 4: activity within a minute is evenly mixed).

-- (The minutes are no common table expression: used twice, it would be written down in full before either use.)

{{ config(materialized='view', database='scratch') }}

with

spans as (

    select
        spans.usage_date,
        spans.started_at,
        spans.ended_at,
        slots.slot_number

    from {{ ref('int_slot_spans') }} as spans
    inner join {{ ref('int_slots_numbered') }} as slots
        on spans.cluster = slots.cluster and spans.gpu_id = slots.gpu_id and spans.slot_id = slots.slot_id
    where not spans.is_out_of_service

),

-- only where a span begins or ends inside a minute may the slot be in service for less than the whole of it
edges as (

    select distinct slot_number, date_trunc('minute', started_at) as minute_start_at
    from spans
    where started_at > date_trunc('minute', started_at)
    union
    select distinct slot_number, date_trunc('minute', ended_at) as minute_start_at
    from spans
    where ended_at > date_trunc('minute', ended_at)

),

edge_minutes as (

    select
        edges.slot_number,
        edges.minute_start_at,
        cast(sum({{ microseconds_between(
            'greatest(spans.started_at, edges.minute_start_at)',
            'least(spans.ended_at, edges.minute_start_at + interval 1 minute)'
        ) }}) as bigint) as service_us

    from edges
    inner join spans
        on
            edges.slot_number = spans.slot_number
            and cast(edges.minute_start_at as date) = spans.usage_date
            and spans.started_at < edges.minute_start_at + interval 1 minute
            and spans.ended_at > edges.minute_start_at
    group by edges.slot_number, edges.minute_start_at

),

-- minutes in which service began or ended: samples of one are kept apart by these instants
broken_minutes as (

    select distinct slot_number, minute_start_at
    from {{ ref('int_gpu_minutes') }} as minutes
    where bucket_start_at > minute_start_at or bucket_end_at < minute_start_at + interval 1 minute

),

-- what was sampled in the parts in service of a broken minute is one mix; what was sampled out of service does not count
mixed_minutes as (

    select
        minutes.slot_number,
        minutes.minute_start_at,
        cast(sum(minutes.covered_us) as bigint) as covered_us,
        cast(sum(minutes.idle_us) as bigint) as idle_us,
        cast(sum(minutes.idle_0_us) as bigint) as idle_0_us,
        cast(sum(minutes.idle_10_us) as bigint) as idle_10_us,
        cast(sum(minutes.idle_25_us) as bigint) as idle_25_us,
        sum(minutes.activity_us) as activity_us,
        sum(minutes.active_activity_us) as active_activity_us,
        sum(minutes.throttled_us) as throttled_us,
        case
            when sum(minutes.covered_us) > 0
                then {{ signal_of_most_time(
                    'sum(minutes.covered_us)',
                    'sum(case when minutes.signal = 2 then minutes.covered_us else 0 end)',
                    'sum(case when minutes.signal = 3 then minutes.covered_us else 0 end)'
                ) }}
        end as signal,
        sum(minutes.memory_bytes * minutes.covered_us) / nullif(sum(minutes.covered_us), 0) as memory_bytes,
        max(minutes.memory_total_bytes) as memory_total_bytes,
        sum(minutes.energy_joules) as energy_joules,
        min(minutes.gap_reason) as gap_reason

    from {{ ref('int_gpu_minutes') }} as minutes
    inner join broken_minutes
        on
            minutes.slot_number = broken_minutes.slot_number
            and minutes.minute_start_at = broken_minutes.minute_start_at
    where exists (
        select 1
        from spans
        where
            spans.slot_number = minutes.slot_number
            and spans.usage_date = minutes.usage_date
            and spans.started_at < minutes.bucket_end_at
            and spans.ended_at > minutes.bucket_start_at
    )
    group by minutes.slot_number, minutes.minute_start_at

),

single_minutes as (

    select
        minutes.slot_number,
        minutes.minute_start_at,
        minutes.covered_us,
        minutes.idle_us,
        minutes.idle_0_us,
        minutes.idle_10_us,
        minutes.idle_25_us,
        minutes.activity_us,
        minutes.active_activity_us,
        minutes.throttled_us,
        minutes.signal,
        minutes.memory_bytes,
        minutes.memory_total_bytes,
        minutes.energy_joules,
        minutes.gap_reason

    from {{ ref('int_gpu_minutes') }} as minutes
    left join broken_minutes
        on
            minutes.slot_number = broken_minutes.slot_number
            and minutes.minute_start_at = broken_minutes.minute_start_at
    where broken_minutes.slot_number is null

),

rolled_up as (

    select * from single_minutes
    union all
    select * from mixed_minutes

),

whole_minutes as (

    select
        rolled_up.*,
        coalesce(edge_minutes.service_us, 60000000) as service_us

    from rolled_up
    left join edge_minutes
        on
            rolled_up.slot_number = edge_minutes.slot_number
            and rolled_up.minute_start_at = edge_minutes.minute_start_at

),

shared_out as (

    select
        slot_number,
        minute_start_at,
        signal,
        gap_reason,
        memory_bytes,
        coalesce(
            memory_bytes >= greatest(
                {{ var('reserved_memory_ratio') }} * memory_total_bytes, {{ var('reserved_memory_bytes') }}
            ),
            false
        ) as holds_memory,
        energy_joules / nullif(service_us, 0) as joules_per_us,
        least(1.0, cast(covered_us as double) / nullif(service_us, 0)) as covered_ratio,
        activity_us / nullif(covered_us, 0) as activity_ratio,
        cast(idle_us as double) / nullif(covered_us, 0) as idle_ratio,
        cast(idle_0_us as double) / nullif(covered_us, 0) as idle_0_ratio,
        cast(idle_10_us as double) / nullif(covered_us, 0) as idle_10_ratio,
        cast(idle_25_us as double) / nullif(covered_us, 0) as idle_25_ratio,
        least(throttled_us, covered_us - idle_us) / nullif(covered_us, 0) as throttled_ratio,
        active_activity_us / nullif(covered_us - idle_us, 0) as active_activity_ratio

    from whole_minutes

)

select * from shared_out
