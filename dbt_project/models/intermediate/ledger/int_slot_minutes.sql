-- What share of a slot's time in service in a minute was covered, idle, throttled, underfilled: the figures by which
-- whoever held a part of that time gets its part of them (semantics 4: activity within a minute is evenly mixed).

with

minutes as (

    select * from {{ ref('int_gpu_minutes') }}

),

spans as (

    select * from {{ ref('int_slot_spans') }}
    where not is_out_of_service

),

-- only where a span begins or ends inside a minute may the slot be in service for less than the whole of it
edges as (

    select distinct cluster, slot_id, date_trunc('minute', started_at) as minute_start_at
    from spans
    where started_at > date_trunc('minute', started_at)
    union
    select distinct cluster, slot_id, date_trunc('minute', ended_at) as minute_start_at
    from spans
    where ended_at > date_trunc('minute', ended_at)

),

edge_minutes as (

    select
        minutes.cluster,
        minutes.slot_id,
        minutes.bucket_start_at,
        cast(sum({{ microseconds_between(
            'greatest(spans.started_at, minutes.bucket_start_at)', 'least(spans.ended_at, minutes.bucket_end_at)'
        ) }}) as bigint) as service_us

    from minutes
    inner join edges
        on
            minutes.cluster = edges.cluster
            and minutes.slot_id = edges.slot_id
            and minutes.minute_start_at = edges.minute_start_at
    inner join spans
        on
            minutes.cluster = spans.cluster
            and minutes.slot_id = spans.slot_id
            and minutes.usage_date = spans.usage_date
            and spans.started_at < minutes.bucket_end_at
            and spans.ended_at > minutes.bucket_start_at
    group by minutes.cluster, minutes.slot_id, minutes.bucket_start_at

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
            minutes.cluster = edge_minutes.cluster
            and minutes.slot_id = edge_minutes.slot_id
            and minutes.bucket_start_at = edge_minutes.bucket_start_at

),

-- buckets of one minute between which the node was out of service
broken_minutes as (

    select distinct cluster, slot_id, minute_start_at
    from minutes
    where bucket_start_at > minute_start_at

),

-- the parts in service of a broken minute are one mix
whole_minutes as (

    select
        in_service.cluster,
        in_service.slot_id,
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
            in_service.cluster = broken_minutes.cluster
            and in_service.slot_id = broken_minutes.slot_id
            and in_service.minute_start_at = broken_minutes.minute_start_at
    where broken_minutes.slot_id is null

    union all

    select
        in_service.cluster,
        in_service.slot_id,
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
            in_service.cluster = broken_minutes.cluster
            and in_service.slot_id = broken_minutes.slot_id
            and in_service.minute_start_at = broken_minutes.minute_start_at
    where in_service.service_us > 0
    group by in_service.cluster, in_service.slot_id, in_service.minute_start_at

),

shared_out as (

    select
        cluster,
        slot_id,
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
