-- The promise of semantics 3: suspended time is in the held time, spread over it evenly, since the accounting gives a total
-- without positions. Promised is each run's suspended part of what it held, measured its `suspended` rows. A run-day
-- that does not hold keeps the build from being published: suspension was lost, or taken from another run.

{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

with

runs as (

    select * from {{ ref('int_runs') }}

),

ledger as (

    select * from {{ ref('fct_gpu_ledger_hourly') }}
    where run_id <> 'unallocated' and {{ in_touched_days('usage_date') }}

),

run_days as (

    select
        usage_date,
        cluster,
        run_id,
        sum(gpu_microseconds) as held_us,
        sum(case when state = 'suspended' then gpu_microseconds else 0 end) as suspended_us,
        count(*) as row_count

    from ledger
    group by usage_date, cluster, run_id

),

compared as (

    select
        run_days.usage_date,
        run_days.cluster,
        run_days.row_count,
        run_days.held_us * coalesce(runs.suspended_ratio, 0.0) as promised_us,
        run_days.suspended_us as measured_us

    from run_days
    left join runs on run_days.run_id = runs.run_id

),

audited as (

    select
        usage_date,
        cluster,
        cast(round(sum(promised_us)) as bigint) as promised,
        cast(sum(measured_us) as bigint) as measured,
        cast(sum(measured_us) - round(sum(promised_us)) as bigint) as difference,
        count(case when abs(measured_us - promised_us) > 2 * row_count then 1 end) as run_days_off

    from compared
    group by usage_date, cluster

),

final as (

    select
        audited.*,
        run_days_off = 0 as holds

    from audited

)

select * from final
