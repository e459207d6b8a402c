-- Unbalanced minutes joined into spans that end with the day, so that a day depends on itself and half an hour around it;
-- `fct_unbalanced_spans` stitches them together again. Minutes of replicas beyond need are rule 6's, and not in it.

{{ config(materialized='incremental', incremental_strategy='replace_days') }}

with

minutes as (

    select * from {{ ref('int_unbalanced_minutes') }}
    where {{ in_touched_days('usage_date') }}

),

surplus as (

    select * from {{ ref('int_surplus_minutes') }}

),

spans as (

    select * from {{ ref('int_held_spans') }}

),

slot_runs as (

    select distinct
        slot_run_number,
        run_number,
        cluster,
        slot_id,
        gpu_id,
        run_id,
        workload_id

    from spans

),

described as (

    select
        minutes.*,
        slot_runs.cluster,
        slot_runs.slot_id,
        slot_runs.gpu_id,
        slot_runs.run_id,
        slot_runs.workload_id,
        {{ row_of_minutes(['minutes.slot_run_number', 'minutes.usage_date'], 'minutes.minute_start_at') }} as span_number

    from minutes
    inner join slot_runs on minutes.slot_run_number = slot_runs.slot_run_number
    left join surplus
        on slot_runs.run_number = surplus.run_number and minutes.minute_start_at = surplus.minute_start_at
    where surplus.run_number is null

),

clipped as (

    select
        usage_date,
        cluster,
        slot_id,
        gpu_id,
        run_id,
        workload_id,
        min(minute_start_at) as started_at,
        max(minute_start_at) + interval 1 minute as ended_at,
        count(*) as unbalanced_minutes,
        sum(covered_us) as covered_us,
        sum(covered_us * activity_ratio) as activity_us,
        sum(covered_us * sibling_activity_ratio) as sibling_activity_us,
        max(sibling_activity_ratio) as sibling_peak_activity_ratio

    from described
    group by usage_date, cluster, slot_id, gpu_id, run_id, workload_id, slot_run_number, span_number

)

select * from clipped
