-- What share of a slot's time in service in a minute was covered, idle, throttled, underfilled: the figures by which
-- whoever held a part of that time gets its part of them (semantics 4: activity within a minute is evenly mixed).

{{ config(materialized='view') }}

with

minutes as (

    select * from {{ ref('int_gpu_minutes') }}

),

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

-- a bucket that lies wholly out of service has no time in service, not a whole minute of it
edge_minutes as (

    select
        minutes.slot_number,
        minutes.bucket_start_at,
        -- greatest() and least() pass over nulls: without a span there is nothing to measure
        cast(sum(case
            when spans.started_at is null then 0
            else {{ microseconds_between(
                'greatest(spans.started_at, minutes.bucket_start_at)', 'least(spans.ended_at, minutes.bucket_end_at)'
            ) }}
        end) as bigint) as service_us

    from minutes
    inner join edges
        on
            minutes.slot_number = edges.slot_number
            and minutes.minute_start_at = edges.minute_start_at
    left join spans
        on
            minutes.slot_number = spans.slot_number
            and minutes.usage_date = spans.usage_date
            and spans.started_at < minutes.bucket_end_at
            and spans.ended_at > minutes.bucket_start_at
    group by minutes.slot_number, minutes.bucket_start_at

),

in_service as (

    select
        minutes.*,
        coalesce(
            edge_minutes.service_us, {{ microseconds_between('minutes.bucket_start_at', 'minutes.bucket_end_at') }}
        ) as service_us

    from minutes
    left join edge_minutes
        on
            minutes.slot_number = edge_minutes.slot_number
            and minutes.bucket_start_at = edge_minutes.bucket_start_at

),

-- buckets of one minute between which the node was out of service
broken_minutes as (

    select distinct slot_number, minute_start_at
    from minutes
    where bucket_start_at > minute_start_at

),

-- the parts in service of a broken minute are one mix
whole_minutes as (

    select
        in_service.slot_number,
        in_service.minute_start_at,
        in_service.service_us,
        in_service.covered_us,
        in_service.idle_us,
        in_service.idle_0_us,
        in_service.idle_10_us,
        in_service.idle_25_us,
        in_service.activity_us,
        in_service.active_activity_us,
        in_service.throttled_us,
        in_service.signal,
        in_service.memory_bytes,
        in_service.memory_total_bytes,
        in_service.energy_joules,
        in_service.gap_reason

    from in_service
    left join broken_minutes
        on
            in_service.slot_number = broken_minutes.slot_number
            and in_service.minute_start_at = broken_minutes.minute_start_at
    where broken_minutes.slot_number is null

    union all

    select
        in_service.slot_number,
        in_service.minute_start_at,
        cast(sum(in_service.service_us) as bigint) as service_us,
        cast(sum(in_service.covered_us) as bigint) as covered_us,
        cast(sum(in_service.idle_us) as bigint) as idle_us,
        cast(sum(in_service.idle_0_us) as bigint) as idle_0_us,
        cast(sum(in_service.idle_10_us) as bigint) as idle_10_us,
        cast(sum(in_service.idle_25_us) as bigint) as idle_25_us,
        sum(in_service.activity_us) as activity_us,
        sum(in_service.active_activity_us) as active_activity_us,
        sum(in_service.throttled_us) as throttled_us,
        max_by(in_service.signal, in_service.covered_us) as signal,
        sum(in_service.memory_bytes * in_service.covered_us) / nullif(sum(in_service.covered_us), 0) as memory_bytes,
        max(in_service.memory_total_bytes) as memory_total_bytes,
        sum(in_service.energy_joules) as energy_joules,
        min(in_service.gap_reason) as gap_reason

    from in_service
    inner join broken_minutes
        on
            in_service.slot_number = broken_minutes.slot_number
            and in_service.minute_start_at = broken_minutes.minute_start_at
    where in_service.service_us > 0
    group by in_service.slot_number, in_service.minute_start_at

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
        case
            when signal in (1, 2) and covered_us > idle_us
                then greatest(
                    0.0,
                    1.0 - active_activity_us / (covered_us - idle_us) / {{ var('underfilled_activity_ratio') }}
                )
            else 0.0
        end as underfilled_ratio

    from whole_minutes

)

select * from shared_out
