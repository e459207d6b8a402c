-- depends_on: {{ ref('int_days_touched') }}
{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

-- What a replica of a service can do in a second, learned from the 28 UTC days before a day (rule 6): `saturated`, the
-- 95th percentile of the rate per replica over the minutes in which the replicas were at their limit; without such
-- minutes `extrapolated`, that of the rate over how far they were used in the same minute (mean activity or mean KV use,
-- whichever is higher): over a mean of weeks the rate of a busy hour would promise what no replica can do. One full cache
-- among twenty does not show that the service is at its limit, requests that wait before one server do.
--
-- What a day's ledger rests on must not change because other days do. So a service's row is stored when its day is
-- first built with usage of it, even where there was nothing to learn from (method `none`), and every later build of
-- the day keeps the row: late usage, late samples, and older history that lands after the day was built change
-- nothing. Only a full refresh learns anew; it may therefore differ from what the days were built with one by one.
-- A day whose usage arrives after its first build is learned when the usage does, from what is known then. Sealed days
-- keep theirs.

with

demand_hours as (

    select * from {{ ref('int_service_demand_hourly') }}

),

service_minutes as (

    select * from {{ ref('int_service_minutes') }}

),

build_window as (

    select * from {{ source('control', 'build_window') }}

),

stored as (

    {% if is_incremental() %}

    select
        usage_date,
        workload_id,
        work_unit,
        replica_capacity_per_second,
        replica_capacity_method,
        learned_minute_count

    from {{ this }}
    where
        {{ in_touched_days('usage_date') }}
        -- a full refresh where some days are sealed replaces the others one by one
        and (select count(*) from build_window where is_full_refresh) = 0

    {% else %}

    select
        cast(null as date) as usage_date,
        cast(null as varchar) as workload_id,
        cast(null as varchar) as work_unit,
        cast(null as double) as replica_capacity_per_second,
        cast(null as varchar) as replica_capacity_method,
        cast(null as bigint) as learned_minute_count

    from build_window
    where false

    {% endif %}

),

to_learn as (

    select distinct
        demand_hours.usage_date,
        demand_hours.workload_id,
        demand_hours.work_unit

    from demand_hours
    left join stored
        on
            demand_hours.usage_date = stored.usage_date
            and demand_hours.workload_id = stored.workload_id
            and demand_hours.work_unit = stored.work_unit
    where stored.usage_date is null

),

learned_from as (

    select
        to_learn.usage_date,
        to_learn.workload_id,
        to_learn.work_unit,
        case
            when to_learn.work_unit = 'tokens' then service_minutes.tokens_per_second else service_minutes.requests_per_second
        end / service_minutes.replica_count as rate_per_replica,
        -- a missing reading tells nothing: the other one does
        greatest(coalesce(service_minutes.activity_ratio, 0), coalesce(service_minutes.kv_cache_usage_ratio, 0)) as used_ratio,
        coalesce(service_minutes.waiting_requests, 0) > 0
        or coalesce(service_minutes.kv_cache_usage_ratio, 0) >= {{ var('saturated_kv_cache_ratio') }}
        or coalesce(service_minutes.activity_ratio, 0) >= {{ var('saturated_activity_ratio') }} as is_saturated

    from to_learn
    inner join service_minutes
        on
            to_learn.workload_id = service_minutes.workload_id
            and service_minutes.usage_date >= to_learn.usage_date - {{ var('capacity_learning_days') }}
            and service_minutes.usage_date < to_learn.usage_date
    where service_minutes.replica_count > 0

),

rates as (

    select
        usage_date,
        workload_id,
        work_unit,
        percentile_cont(0.95) within group (
            order by case when is_saturated then rate_per_replica end
        ) as saturated_per_second,
        percentile_cont(0.95) within group (
            order by rate_per_replica / nullif(used_ratio, 0)
        ) as extrapolated_per_second,
        count(case when is_saturated then rate_per_replica end) as saturated_minute_count,
        count(rate_per_replica / nullif(used_ratio, 0)) as used_minute_count

    from learned_from
    group by usage_date, workload_id, work_unit

),

-- a capacity of 0 is none
learned as (

    select
        to_learn.usage_date,
        to_learn.workload_id,
        to_learn.work_unit,
        case
            when rates.saturated_per_second > 0 then rates.saturated_per_second
            when rates.extrapolated_per_second > 0 then rates.extrapolated_per_second
        end as replica_capacity_per_second,
        case
            when rates.saturated_per_second > 0 then 'saturated'
            when rates.extrapolated_per_second > 0 then 'extrapolated'
            else 'none'
        end as replica_capacity_method,
        case
            when rates.saturated_per_second > 0 then rates.saturated_minute_count
            when rates.extrapolated_per_second > 0 then rates.used_minute_count
            else 0
        end as learned_minute_count

    from to_learn
    left join rates
        on
            to_learn.usage_date = rates.usage_date
            and to_learn.workload_id = rates.workload_id
            and to_learn.work_unit = rates.work_unit

),

both_kinds as (

    select * from stored
    union all
    select * from learned

)

select * from both_kinds
