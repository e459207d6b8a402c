-- What each device did, held or not, hour by hour: of a partitioned one by the fractions of its slots.

{{ config(materialized='incremental', incremental_strategy='replace_days') }}

with

minutes as (

    select
        usage_date,
        slot_number,
        date_trunc('hour', minute_start_at) as hour_start_at,
        sum(covered_us * slot_fraction) as covered_us,
        sum(activity_us * slot_fraction) as activity_us

    from {{ ref('int_gpu_minutes') }}
    where covered_us > 0 and {{ in_touched_days('usage_date') }}
    group by usage_date, slot_number, date_trunc('hour', minute_start_at)

),

slots as (

    select * from {{ ref('int_slots_numbered') }}

),

devices as (

    select
        minutes.usage_date,
        minutes.hour_start_at,
        slots.cluster,
        slots.gpu_id,
        sum(minutes.covered_us) as covered_us,
        sum(minutes.activity_us) as activity_us

    from minutes
    inner join slots on minutes.slot_number = slots.slot_number
    group by minutes.usage_date, minutes.hour_start_at, slots.cluster, slots.gpu_id

)

select * from devices
