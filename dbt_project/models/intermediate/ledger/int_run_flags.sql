{{ config(materialized='incremental', incremental_strategy='replace_days') }}

with

holds as (

    select * from {{ ref('int_slot_holds') }}

),

oversubscribed as (

    select * from {{ ref('int_slot_spans') }}
    where held_share > 1.0 + 1e-9

),

claims as (

    select * from {{ ref('int_pool_claims_placed') }}

),

given as (

    select * from {{ ref('int_pool_stretches') }}

),

states as (

    select * from {{ ref('int_gpu_state_spans') }}
    where state not in ('down', 'maintenance', 'lost', 'drained')

),

-- a node in service whose every device is others' gives a claim nothing at all
unplaced as (

    select
        cast(claims.hour_start_at as date) as usage_date,
        claims.run_id,
        'over_allocated' as flag

    from claims
    where
        exists (
            select 1
            from states
            where
                states.cluster = claims.cluster
                and states.node = claims.node
                and states.started_at < claims.ended_at
                and states.ended_at > claims.started_at
        )
        and not exists (
            select 1
            from given
            where
                given.run_id = claims.run_id
                and given.node = claims.node
                and given.pool = claims.pool
                and given.hour_start_at = claims.hour_start_at
                and given.started_at < claims.ended_at
                and given.ended_at > claims.started_at
        )

),

-- shares above 1 in sum are scaled to 1 (semantics 3)
scaled as (

    select
        holds.usage_date,
        holds.run_id,
        'over_allocated' as flag

    from holds
    inner join oversubscribed
        on
            holds.cluster = oversubscribed.cluster
            and holds.slot_id = oversubscribed.slot_id
            and holds.usage_date = oversubscribed.usage_date
            and holds.started_at < oversubscribed.ended_at
            and holds.ended_at > oversubscribed.started_at

),

flagged as (

    select usage_date, run_id, flag from holds
    where flag <> ''
    union all
    select usage_date, run_id, flag from unplaced
    union all
    select usage_date, run_id, flag from scaled

),

flags as (

    select distinct
        usage_date,
        run_id,
        flag

    from flagged
    where {{ in_touched_days('usage_date') }}

)

select * from flags
