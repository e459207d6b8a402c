-- The minutes of the roll-up by the scheduler's clock: those of a node whose clock was off are taken back by whole minutes,
-- which leaves an error of less than is tolerated. A minute that would leave its day does so only if the clock was off by the
-- same on that day, or it would fall on another. All others are as they were told.

-- A day without a wrong clock, nearly every one, is passed on as it is, at no cost.

-- (The minutes are no common table expression: used twice, they would be written down in full before either use.)

{{ config(materialized='view') }}

{% set back = "(-60000000 * corrections.corrected_minutes)" %}

with

corrections as (

    select
        offsets.usage_date,
        series.series_number,
        offsets.corrected_minutes

    from {{ ref('fct_node_clock_offsets') }} as offsets
    inner join {{ ref('int_sample_series') }} as series
        on
            offsets.cluster = series.cluster
            and offsets.node = series.node
            and offsets.source = series.source
    where offsets.corrected_minutes <> 0

),

as_told as (

    select
        minutes.*,
        minutes.bucket_start_at as told_bucket_start_at

    from {{ ref('int_gpu_minutes_rolled_up') }} as minutes
    {%- if clocks_are_corrected() %}
    left join corrections
        on
            minutes.usage_date = corrections.usage_date
            and minutes.series_number = corrections.series_number
    where corrections.series_number is null
    {%- endif %}

),

taken_back as (

    select
        minutes.* replace (
            cast({{ plus_microseconds('minutes.bucket_start_at', back) }} as date) as usage_date,
            {{ plus_microseconds('minutes.bucket_start_at', back) }} as bucket_start_at,
            {{ plus_microseconds('minutes.bucket_end_at', back) }} as bucket_end_at,
            {{ plus_microseconds('minutes.first_start_at', back) }} as first_start_at,
            {{ plus_microseconds('minutes.last_end_at', back) }} as last_end_at,
            {{ plus_microseconds('minutes.first_reading_until_at', back) }} as first_reading_until_at,
            {{ plus_microseconds('minutes.last_reading_from_at', back) }} as last_reading_from_at
        ),
        minutes.bucket_start_at as told_bucket_start_at

    from {{ ref('int_gpu_minutes_rolled_up') }} as minutes
    inner join corrections
        on
            minutes.usage_date = corrections.usage_date
            and minutes.series_number = corrections.series_number
    left join corrections as neighbours
        on
            cast({{ plus_microseconds('minutes.bucket_start_at', back) }} as date) = neighbours.usage_date
            and minutes.series_number = neighbours.series_number
            and corrections.corrected_minutes = neighbours.corrected_minutes
    where neighbours.series_number is not null

),

both_kinds as (

    select * from as_told
    {%- if clocks_are_corrected() %}
    union all
    select * from taken_back
    {%- endif %}

)

select * from both_kinds
