{{ config(materialized='incremental', incremental_strategy='replace_days') }}

with

holds as (

    select * from {{ ref('int_slot_holds') }}

),

flags as (

    select distinct
        usage_date,
        run_id,
        flag

    from holds
    where flag <> '' and {{ in_touched_days('usage_date') }}

)

select * from flags
