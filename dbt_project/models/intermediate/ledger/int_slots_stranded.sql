-- The part of each free slot's time in which its node lacked CPU or memory for another GPU job, by hour. Slots of nodes
-- that are draining or reserved are not asked, nor what a partitioning leaves over: those have their own reasons.

with

spans as (

    select * from {{ ref('int_slot_spans') }}
    where
        held_share < 1.0
        and not is_out_of_service
        and not is_shared
        and not is_implied
        and not is_stranded
        and node_state not in ('draining', 'drained', 'reserved')

),

stranded as (

    select * from {{ ref('int_node_stranded_spans') }}

),

overlapping as (

    select
        spans.usage_date,
        spans.cluster,
        spans.node,
        spans.gpu_id,
        spans.slot_id,
        spans.started_at as span_started_at,
        spans.slot_fraction * (1.0 - spans.held_share) as free_share,
        stranded.started_at as stranded_from_at,
        greatest(spans.started_at, stranded.started_at) as started_at,
        least(spans.ended_at, stranded.ended_at) as ended_at

    from spans
    inner join stranded
        on
            spans.cluster = stranded.cluster
            and spans.node = stranded.node
            and spans.usage_date = stranded.usage_date
            and spans.started_at < stranded.ended_at
            and spans.ended_at > stranded.started_at

),

touching as (

    select
        overlapping.*,
        {{ each_touched('hour', 'overlapping.started_at', 'overlapping.ended_at') }} as hour_start_at

    from overlapping

),

in_hours as (

    select
        usage_date,
        hour_start_at,
        cluster,
        node,
        gpu_id,
        slot_id,
        span_started_at,
        stranded_from_at,
        free_share * {{ microseconds_between(
            'greatest(started_at, hour_start_at)', 'least(ended_at, hour_start_at + interval 1 hour)'
        ) }} as us

    from touching

)

select * from in_hours
