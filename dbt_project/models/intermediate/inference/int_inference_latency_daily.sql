{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

-- The latency within which half, 95 % and 99 % of a day's requests were answered: from the servers' histograms, added
-- up first and read linearly inside a bucket; where no server has one, from the gateway's log. A percentile that lies
-- above the last boundary is null: all that is known is that it is higher.

with

buckets_hourly as (

    select * from {{ ref('int_inference_latency_hourly') }}
    where {{ in_touched_days('usage_date') }}

),

requests as (

    select * from {{ ref('int_inference_requests_assigned') }}
    where latency_ms is not null and not is_failed and {{ in_touched_days('usage_date') }}

),

buckets as (

    select
        usage_date,
        workload_id,
        model,
        above_seconds,
        le_seconds,
        sum(request_count) as request_count

    from buckets_hourly
    group by usage_date, workload_id, model, above_seconds, le_seconds

),

boundaries as (

    select distinct
        usage_date,
        workload_id,
        model,
        le_seconds

    from buckets

),

-- servers with other boundaries count up to each boundary as far as a straight line inside their bucket reaches
reached as (

    select
        boundaries.usage_date,
        boundaries.workload_id,
        boundaries.model,
        boundaries.le_seconds,
        sum(
            case
                when buckets.le_seconds <= boundaries.le_seconds then buckets.request_count
                when buckets.above_seconds >= boundaries.le_seconds or not {{ is_finite('buckets.le_seconds') }} then 0
                else
                    buckets.request_count * (boundaries.le_seconds - buckets.above_seconds)
                    / nullif(buckets.le_seconds - buckets.above_seconds, 0)
            end
        ) as reached_count

    from boundaries
    inner join buckets
        on
            boundaries.usage_date = buckets.usage_date
            and boundaries.workload_id = buckets.workload_id
            and boundaries.model = buckets.model
    group by boundaries.usage_date, boundaries.workload_id, boundaries.model, boundaries.le_seconds

),

segments as (

    select
        reached.*,
        coalesce(
            lag(le_seconds) over (partition by usage_date, workload_id, model order by le_seconds nulls last),
            cast(0 as double)
        ) as above_seconds,
        coalesce(
            lag(reached_count) over (partition by usage_date, workload_id, model order by le_seconds nulls last),
            cast(0 as double)
        ) as above_count,
        max(reached_count) over (partition by usage_date, workload_id, model) as total_count

    from reached

),

ranks as (

    select cast(0.50 as double) as rank_ratio
    union all
    select cast(0.95 as double) as rank_ratio
    union all
    select cast(0.99 as double) as rank_ratio

),

found as (

    select
        segments.usage_date,
        segments.workload_id,
        segments.model,
        ranks.rank_ratio,
        case
            when {{ is_finite('segments.le_seconds') }}
                then
                    segments.above_seconds
                    + (segments.le_seconds - segments.above_seconds)
                    * (ranks.rank_ratio * segments.total_count - segments.above_count)
                    / nullif(segments.reached_count - segments.above_count, 0)
        end as latency_seconds

    from segments
    cross join ranks
    where
        segments.total_count > 0
        and segments.above_count < ranks.rank_ratio * segments.total_count
        and segments.reached_count >= ranks.rank_ratio * segments.total_count

),

from_histograms as (

    select
        usage_date,
        workload_id,
        model,
        max(case when rank_ratio = 0.50 then latency_seconds end) as latency_p50_seconds,
        max(case when rank_ratio = 0.95 then latency_seconds end) as latency_p95_seconds,
        max(case when rank_ratio = 0.99 then latency_seconds end) as latency_p99_seconds

    from found
    group by usage_date, workload_id, model

),

from_log as (

    select
        usage_date,
        workload_id,
        model,
        percentile_cont(0.50) within group (order by latency_ms) / 1000 as latency_p50_seconds,
        percentile_cont(0.95) within group (order by latency_ms) / 1000 as latency_p95_seconds,
        percentile_cont(0.99) within group (order by latency_ms) / 1000 as latency_p99_seconds

    from requests
    group by usage_date, workload_id, model

),

final as (

    select
        coalesce(from_histograms.usage_date, from_log.usage_date) as usage_date,
        coalesce(from_histograms.workload_id, from_log.workload_id) as workload_id,
        coalesce(from_histograms.model, from_log.model) as model,
        case when from_histograms.model is not null then 'server' else 'gateway' end as latency_source,
        case
            when from_histograms.model is not null then from_histograms.latency_p50_seconds
            else from_log.latency_p50_seconds
        end as latency_p50_seconds,
        case
            when from_histograms.model is not null then from_histograms.latency_p95_seconds
            else from_log.latency_p95_seconds
        end as latency_p95_seconds,
        case
            when from_histograms.model is not null then from_histograms.latency_p99_seconds
            else from_log.latency_p99_seconds
        end as latency_p99_seconds

    from from_histograms
    full outer join from_log
        on
            from_histograms.usage_date = from_log.usage_date
            and from_histograms.workload_id = from_log.workload_id
            and from_histograms.model = from_log.model

)

select * from final
