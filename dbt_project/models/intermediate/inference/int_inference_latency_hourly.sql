{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

-- The servers' latency histograms, merged: requests per bucket, which add up over any group, as percentiles do not.
-- Histograms land cumulative; those with the same boundaries are added before they are taken apart.

with

usage as (

    select * from {{ ref('int_inference_usage_owned') }}
    where latency_histogram is not null and {{ in_touched_days('usage_date') }}

),

buckets as (

    select
        date_trunc('hour', interval_start_at) as hour_start_at,
        usage_date,
        workload_id,
        model,
        {{ histogram_layout('latency_histogram') }} as layout,
        {{ each_bucket('latency_histogram') }} as bucket

    from usage

),

cumulative as (

    select
        hour_start_at,
        usage_date,
        workload_id,
        model,
        layout,
        {{ struct_member('bucket', 'le_seconds') }} as le_seconds,
        sum({{ struct_member('bucket', 'count') }}) as cumulative_count

    from buckets
    group by hour_start_at, usage_date, workload_id, model, layout, {{ struct_member('bucket', 'le_seconds') }}

),

taken_apart as (

    select
        cumulative.*,
        lag(le_seconds) over (
            partition by hour_start_at, workload_id, model, layout
            order by le_seconds nulls last
        ) as previous_le_seconds,
        lag(cumulative_count) over (
            partition by hour_start_at, workload_id, model, layout
            order by le_seconds nulls last
        ) as previous_count

    from cumulative

),

final as (

    select
        hour_start_at,
        usage_date,
        workload_id,
        model,
        coalesce(previous_le_seconds, cast(0 as double)) as above_seconds,
        le_seconds,
        sum(greatest(cumulative_count - coalesce(previous_count, 0), 0)) as request_count

    from taken_apart
    group by hour_start_at, usage_date, workload_id, model, coalesce(previous_le_seconds, cast(0 as double)), le_seconds

)

select * from final
