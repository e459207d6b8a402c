-- Stretches in which a device was seen directly: its samples, whole intervals, usable or not, and its inventory
-- records. Sightings in one quarter of an hour are drawn together at once, since a hole of up to
-- inventory_absent_minutes (15) always belongs to the inventory. Kept by day, so that a year is small.

{{ config(materialized='incremental', incremental_strategy='replace_days') }}

{% set reading_us -%}
    ({{ microseconds_between('minutes.first_start_at', 'minutes.last_end_at') }} // greatest(1, minutes.reading_count))
{%- endset %}

with

minutes as (

    select * from {{ ref('int_gpu_minutes_clocked') }}

),

inventory as (

    select * from {{ ref('stg_landing__gpu_inventory') }}

),

series as (

    select * from {{ ref('int_sample_series') }}

),

instants as (

    select
        minutes.usage_date,
        series.cluster,
        series.node,
        series.gpu_uuid as gpu_id,
        minutes.first_start_at as seen_from_at,
        -- whole readings of a minute are about of one length; those that were cut have kept their own ends
        coalesce(
            minutes.first_reading_until_at, {{ plus_microseconds('minutes.first_start_at', reading_us) }}
        ) as first_seen_until_at,
        coalesce(
            minutes.last_reading_from_at, {{ plus_microseconds('minutes.last_end_at', '-' ~ reading_us) }}
        ) as last_seen_from_at,
        minutes.last_end_at as seen_until_at

    from minutes
    inner join series on minutes.series_number = series.series_number
    where {{ in_partitions('touched', day='minutes.usage_date') }} and {{ in_touched_days('minutes.usage_date') }}

    union all

    select
        cast(seen_at as date) as usage_date,
        cluster,
        node,
        gpu_uuid as gpu_id,
        seen_at as seen_from_at,
        seen_at as first_seen_until_at,
        seen_at as last_seen_from_at,
        seen_at as seen_until_at

    from inventory
    where {{ in_partitions('touched') }} and {{ in_touched_days('cast(seen_at as date)') }}

),

quarters as (

    select
        usage_date,
        cluster,
        node,
        gpu_id,
        cast({{ microseconds_between("timestamp '1970-01-01'", 'seen_from_at') }} // 900000000 as bigint) as quarter_number,
        min(seen_from_at) as seen_from_at,
        min(first_seen_until_at) as first_seen_until_at,
        max(last_seen_from_at) as last_seen_from_at,
        max(seen_until_at) as seen_until_at

    from instants
    group by usage_date, cluster, node, gpu_id, quarter_number

),

marked as (

    select
        quarters.*,
        case
            when
                seen_from_at <= max(seen_until_at) over (
                    partition by usage_date, cluster, node, gpu_id
                    order by seen_from_at nulls last
                    rows between unbounded preceding and 1 preceding
                ) + interval {{ var('inventory_absent_minutes') }} minute
                then 0
            else 1
        end as begins

    from quarters

),

numbered as (

    select
        marked.*,
        sum(begins) over (
            partition by usage_date, cluster, node, gpu_id
            order by seen_from_at nulls last
            rows between unbounded preceding and current row
        ) as stretch_number

    from marked

),

stretches as (

    select
        usage_date,
        cluster,
        node,
        gpu_id,
        min(seen_from_at) as seen_from_at,
        min(first_seen_until_at) as first_seen_until_at,
        max(last_seen_from_at) as last_seen_from_at,
        max(seen_until_at) as seen_until_at

    from numbered
    group by usage_date, cluster, node, gpu_id, stretch_number

)

select * from stretches
