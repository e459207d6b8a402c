-- The series of samples of the days to roll up, and which of them need cutting before they can be added up: a reading
-- that repeats, overlaps the next, straddles a minute, or is of a device that was lost or whose node changes its state. A collector on
-- an exact grid has none, and its samples are then touched once, in the roll-up.

{{ config(materialized='table') }}

with

boundaries as (

    select distinct cluster, node
    from {{ ref('int_node_states_resolved') }}
    where state in ('down', 'maintenance', 'drained')

),

lost_devices as (

    select distinct cluster, gpu_id
    from {{ ref('int_gpu_loss_events') }}
    where is_lost

),

series as (

    select
        cast(row_number() over (
            order by cluster nulls first, gpu_uuid nulls first, slot_uuid nulls first, source nulls first, node nulls first
        ) as integer) as series_number,
        *

    from (
        select distinct cluster, node, gpu_uuid, slot_uuid, source
        from {{ ref('stg_landing__gpu_samples') }}
        where {{ in_sample_partitions() }}
    ) as distinct_series

),

followed as (

    select
        series.series_number,
        samples.interval_start_at,
        {{ plus_microseconds('samples.interval_start_at', 'samples.interval_ms * 1000') }} as interval_end_at,
        lead(samples.interval_start_at) over (
            partition by series.series_number order by samples.interval_start_at nulls last
        ) as next_start_at

    from {{ ref('stg_landing__gpu_samples') }} as samples
    inner join series
        on
            samples.cluster = series.cluster
            and samples.gpu_uuid = series.gpu_uuid
            and samples.node = series.node
            and samples.source = series.source
            and samples.slot_uuid is not distinct from series.slot_uuid
    where {{ in_sample_partitions() }}

),

irregular as (

    select distinct series_number
    from followed
    where
        next_start_at < interval_end_at
        or interval_end_at > date_trunc('minute', interval_start_at) + interval 1 minute

),

flagged as (

    select
        series.*,
        irregular.series_number is not null
            or boundaries.node is not null
            or lost_devices.gpu_id is not null as needs_cutting

    from series
    left join irregular on series.series_number = irregular.series_number
    left join boundaries on series.cluster = boundaries.cluster and series.node = boundaries.node
    left join lost_devices on series.cluster = lost_devices.cluster and series.gpu_uuid = lost_devices.gpu_id

)

select * from flagged
