-- The days on which each series of samples is to be rolled up, and on which of them its samples must be cut before they can be
-- added up: where a reading repeats, overlaps the next, lies off the grid of one interval that divides the minute, reaches over
-- from the day before, or where the device was lost or its node changed its state. A collector on an exact grid has no such day.

with

days_of_change as (

    select distinct
        cluster,
        node,
        cast({{ each_touched('day', 'started_at', 'ended_at') }} as date) as dt

    from {{ ref('int_node_states_resolved') }}
    where state in ('down', 'maintenance', 'drained') and started_at < ended_at

),

loss_events as (

    select * from {{ ref('int_gpu_loss_events') }}

),

lost_devices as (

    select distinct
        cluster,
        gpu_id

    from loss_events
    where is_lost

),

days_of_loss as (

    select distinct
        loss_events.cluster,
        loss_events.gpu_id,
        cast(loss_events.told_at as date) as dt

    from loss_events
    inner join lost_devices
        on loss_events.cluster = lost_devices.cluster and loss_events.gpu_id = lost_devices.gpu_id

),

-- on one grid of whole seconds, two readings overlap only where they begin in the same second
days as (

    select
        cluster,
        node,
        gpu_uuid,
        slot_uuid,
        source,
        dt,
        min(interval_ms) as interval_ms,
        max({{ plus_microseconds('interval_start_at', 'interval_ms * 1000') }}) as last_end_at,
        coalesce(
            min(interval_ms) = max(interval_ms)
            and min(interval_ms) >= 1000
            and min(interval_ms) % 1000 = 0
            and 60000 % min(interval_ms) = 0
            and max(
                {{ microseconds_between("timestamp '1970-01-01'", 'interval_start_at') }} % (interval_ms * 1000)
            ) = 0
            and count(*) = {{ distinct_seconds_of_day('interval_start_at') }},
            false
        ) as is_even

    from {{ ref('stg_landing__gpu_samples') }}
    where {{ in_partitions('rolled_up') }}
    group by cluster, node, gpu_uuid, slot_uuid, source, dt

),

followed as (

    select
        days.*,
        lag(last_end_at) over (
            partition by cluster, gpu_uuid, slot_uuid, source, node order by dt nulls last
        ) as last_end_before_at

    from days

),

flagged as (

    select
        followed.cluster,
        followed.node,
        followed.gpu_uuid,
        followed.slot_uuid,
        followed.source,
        followed.dt as sample_date,
        cast(followed.interval_ms * 1000 as bigint) as interval_us,
        not followed.is_even
        or coalesce(followed.last_end_before_at > cast(followed.dt as timestamp), false)
        or days_of_loss.gpu_id is not null
        or days_of_change.node is not null as needs_cutting

    from followed
    left join days_of_loss
        on
            followed.cluster = days_of_loss.cluster
            and followed.gpu_uuid = days_of_loss.gpu_id
            and followed.dt = days_of_loss.dt
    left join days_of_change
        on
            followed.cluster = days_of_change.cluster
            and followed.node = days_of_change.node
            and followed.dt = days_of_change.dt

)

select * from flagged
