{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

-- How the runs of a day ended and until when they were worth it, as it was known when the day was last built: what is told
-- later of a run of a sealed day must not come in with its money (semantics 11).

with

ledger_hours as (

    select * from {{ ref('int_gpu_ledger_hours') }}
    where {{ in_touched_days('usage_date') }}

),

goodput as (

    select * from {{ ref('int_runs_goodput') }}

),

runs as (

    select * from {{ ref('int_runs') }}

),

run_days as (

    select distinct
        usage_date,
        run_id

    from ledger_hours
    where run_id <> 'unallocated'

),

ended as (

    select
        run_days.usage_date,
        run_days.run_id,
        runs.end_kind,
        goodput.held_from_at,
        goodput.held_until_at,
        goodput.good_until_at

    from run_days
    inner join runs on run_days.run_id = runs.run_id
    left join goodput on run_days.run_id = goodput.run_id

)

select * from ended
