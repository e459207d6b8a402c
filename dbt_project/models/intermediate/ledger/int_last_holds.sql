-- The slots that each run holds to its very end (or to where its cluster is known to): of a run that has not ended, what
-- it holds now.

{{ config(materialized='incremental', incremental_strategy='replace_days') }}

with

holds as (

    select * from {{ ref('int_slot_holds') }}
    where {{ in_touched_days('usage_date') }}

),

runs as (

    select * from {{ ref('int_runs') }}

),

layouts as (

    select * from {{ ref('int_gpu_layouts') }}

),

last_holds as (

    select
        holds.usage_date,
        holds.cluster,
        holds.node,
        holds.gpu_id,
        holds.slot_id,
        holds.run_id,
        holds.ended_at,
        holds.share,
        coalesce(layouts.slot_fraction, 1.0) as slot_fraction

    from holds
    inner join runs on holds.run_id = runs.run_id and holds.ended_at = runs.held_until_at
    left join layouts
        on
            holds.cluster = layouts.cluster
            and holds.gpu_id = layouts.gpu_id
            and holds.slot_id = layouts.slot_id
            and holds.ended_at > layouts.valid_from_at
            and holds.ended_at <= layouts.valid_until_at

)

select * from last_holds
