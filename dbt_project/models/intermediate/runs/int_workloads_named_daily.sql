{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

-- What the workloads of a day were called when the day was last built. Other names touch the day (int_days_touched), but for a
-- sealed one, of which nothing but money changes (semantics 11).

with

ledger as (

    select * from {{ ref('fct_gpu_ledger_hourly') }}
    where {{ in_touched_days('usage_date') }}

),

served as (

    select * from {{ ref('fct_inference_hourly') }}
    where {{ in_touched_days('usage_date') }}

),

workloads as (

    select * from {{ ref('dim_workloads') }}

),

changes as (

    select * from {{ ref('int_workload_changes') }}

),

workload_days as (

    select
        usage_date,
        workload_id

    from ledger

    union

    select
        usage_date,
        workload_id

    from served

),

named as (

    select
        workload_days.usage_date,
        workload_days.workload_id,
        workloads.cluster,
        workloads.workload,
        workloads.application,
        workloads.team,
        workloads.model,
        workloads.kind,
        changes.fingerprint

    from workload_days
    inner join workloads on workload_days.workload_id = workloads.workload_id
    inner join changes on workload_days.workload_id = changes.change_key

)

select * from named
