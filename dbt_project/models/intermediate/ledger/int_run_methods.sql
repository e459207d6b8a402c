{{ config(materialized='incremental', incremental_strategy='replace_days') }}

with

holds as (

    select * from {{ ref('int_slot_holds') }}

),

methods as (

    select
        usage_date,
        run_id,
        assignment_method,
        cast(round(sum({{ microseconds_between('started_at', 'ended_at') }} * share)) as bigint) as held_us

    from holds
    where {{ in_touched_days('usage_date') }}
    group by usage_date, run_id, assignment_method

)

select * from methods
