-- What the samples say of a slot beyond what the ledger asks, summed once to hours; an hour in which the slot's holders or
-- its service change is kept in minutes, so that each holder gets its own. Rows differ by memory in use, so that a
-- percentile of memory can be taken of any group: a server's memory seldom moves, and its hour is one row.

{{ config(database='scratch') }}

with

minutes as (

    select * from {{ ref('int_gpu_minutes') }}
    where covered_us > 0 and {{ in_replaced_days('usage_date') }}

),

spans as (

    select * from {{ ref('int_held_spans') }}

),

changes as (

    select distinct
        slot_number,
        date_trunc('hour', started_at) as hour_start_at

    from spans
    where started_at > date_trunc('hour', started_at)

    union

    select distinct
        slot_number,
        date_trunc('hour', ended_at) as hour_start_at

    from spans
    where ended_at > date_trunc('hour', ended_at)

),

placed as (

    select
        minutes.usage_date,
        minutes.slot_number,
        date_trunc('hour', minutes.minute_start_at) as hour_start_at,
        case
            when changes.slot_number is null then date_trunc('hour', minutes.minute_start_at)
            else minutes.bucket_start_at
        end as part_start_at,
        case
            when changes.slot_number is null then date_trunc('hour', minutes.minute_start_at) + interval 1 hour
            else minutes.bucket_end_at
        end as part_end_at,
        minutes.memory_bytes,
        minutes.memory_total_bytes,
        minutes.covered_us,
        minutes.idle_us,
        minutes.throttled_us,
        minutes.energy_joules,
        minutes.tensor_ratio,
        minutes.dram_ratio,
        minutes.sm_clock_mhz

    from minutes
    left join changes
        on
            minutes.slot_number = changes.slot_number
            and date_trunc('hour', minutes.minute_start_at) = changes.hour_start_at

),

summed as (

    select
        usage_date,
        slot_number,
        hour_start_at,
        part_start_at,
        part_end_at,
        memory_bytes,
        max(memory_total_bytes) as memory_total_bytes,
        cast(sum(covered_us) as bigint) as covered_us,
        sum(least(throttled_us, covered_us - idle_us)) as throttled_us,
        sum(energy_joules) as energy_joules,
        cast(sum(case when energy_joules is not null then covered_us end) as bigint) as energy_us,
        sum(tensor_ratio * covered_us) as tensor_active_us,
        cast(sum(case when tensor_ratio is not null then covered_us end) as bigint) as tensor_us,
        sum(dram_ratio * covered_us) as dram_active_us,
        cast(sum(case when dram_ratio is not null then covered_us end) as bigint) as dram_us,
        sum(sm_clock_mhz * covered_us) as sm_clock_mhz_us,
        cast(sum(case when sm_clock_mhz is not null then covered_us end) as bigint) as sm_clock_us

    from placed
    group by usage_date, slot_number, hour_start_at, part_start_at, part_end_at, memory_bytes

)

select * from summed
