-- When a device was lost and when it was seen working again, reading by reading, for the few devices that ever were
-- lost: an XID 79, or an inventory record that says so; working is a usable reading without it, or a record that does
-- not say so. Exporters repeat the last XID in every later reading: a repeated one says nothing new, so that a usable
-- reading that is not the one before over again shows a device that works. Only the changes within a day are kept.

{{ config(materialized='incremental', incremental_strategy='replace_days') }}

with

inventory as (

    select * from {{ ref('stg_landing__gpu_inventory') }}

),

lost_devices as (

    select distinct cluster, gpu_uuid
    from {{ ref('stg_landing__gpu_samples') }}
    where xid = 79 and {{ in_partitions('touched') }}

    union

    select distinct cluster, gpu_uuid
    from inventory
    where is_lost

    {% if is_incremental() %}
    union

    select distinct cluster, gpu_id as gpu_uuid
    from {{ this }}
    where is_lost
    {% endif %}

),

readings as (

    select
        samples.cluster,
        samples.gpu_uuid as gpu_id,
        samples.slot_uuid,
        samples.source,
        samples.interval_start_at as told_at,
        coalesce(samples.xid = 79, false) as has_fallen,
        coalesce(samples.sm_active_ratio, samples.graphics_engine_active_ratio, samples.gpu_utilization_ratio) as activity,
        concat_ws(
            '|',
            coalesce(cast(samples.power_watts as varchar), ''),
            coalesce(cast(samples.temperature_celsius as varchar), ''),
            coalesce(cast(samples.sm_clock_mhz as varchar), ''),
            coalesce(cast(samples.memory_used_bytes as varchar), ''),
            coalesce(cast(samples.sm_active_ratio as varchar), ''),
            coalesce(cast(samples.graphics_engine_active_ratio as varchar), ''),
            coalesce(cast(samples.gpu_utilization_ratio as varchar), '')
        ) as reading

    from {{ ref('stg_landing__gpu_samples') }} as samples
    inner join lost_devices on samples.cluster = lost_devices.cluster and samples.gpu_uuid = lost_devices.gpu_uuid
    where {{ in_partitions('touched') }}

),

-- the day before is always among the partitions, and no more may be, if any sequence of builds is to say the same
readings_followed as (

    select
        readings.*,
        case
            when lag(told_at) over (
                partition by cluster, gpu_id, slot_uuid, source order by told_at nulls last, reading nulls last
            ) >= date_trunc('day', told_at) - interval 1 day
                then lag(has_fallen) over (
                    partition by cluster, gpu_id, slot_uuid, source order by told_at nulls last, reading nulls last
                )
        end as had_fallen,
        lag(reading) over (
            partition by cluster, gpu_id, slot_uuid, source order by told_at nulls last, reading nulls last
        ) as reading_before

    from readings

),

told as (

    select
        cluster,
        gpu_id,
        told_at,
        has_fallen
        and not (coalesce(had_fallen, false) and activity is not null and reading <> reading_before) as is_lost

    from readings_followed
    where has_fallen or activity is not null

    union all

    select
        inventory.cluster,
        inventory.gpu_uuid as gpu_id,
        inventory.seen_at as told_at,
        coalesce(inventory.is_lost, false) as is_lost

    from inventory
    inner join lost_devices on inventory.cluster = lost_devices.cluster and inventory.gpu_uuid = lost_devices.gpu_uuid

),

followed as (

    select
        cast(told_at as date) as usage_date,
        cluster,
        gpu_id,
        told_at,
        is_lost,
        lag(is_lost) over (
            partition by cluster, gpu_id, cast(told_at as date) order by told_at nulls last, is_lost nulls last
        ) as was_lost

    from told

),

changes as (

    select
        usage_date,
        cluster,
        gpu_id,
        told_at,
        is_lost

    from followed
    where was_lost is null or is_lost <> was_lost

)

select * from changes
where {{ in_touched_days('usage_date') }}
