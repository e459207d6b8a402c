-- The promises that need no second figure: a row of the ledger is of a positive time, of at most its hour, held by a run
-- exactly if its state is one of held time, and its microseconds are its hours; the holders of a slot hold at most all of
-- it; what is covered of a held hour is no more than what is held. Promised are the rows, measured those that keep all of
-- it. A row that does not keeps the build from being published: the model that made it is wrong, so find it by the count
-- that is not 0.

{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

with

ledger as (

    select * from {{ ref('fct_gpu_ledger_hourly') }}
    where {{ in_touched_days('usage_date') }}

),

states as (

    select * from {{ ref('dim_states') }}

),

spans as (

    select * from {{ ref('int_held_spans') }}
    where {{ in_touched_days('usage_date') }}

),

hours as (

    select * from {{ ref('int_held_hours_divided') }}
    where {{ in_touched_days('usage_date') }}

),

rows_judged as (

    select
        ledger.usage_date,
        ledger.cluster,
        ledger.gpu_microseconds <= 0
        or ledger.gpu_microseconds > 3600000000
        or coalesce(abs(ledger.gpu_hours - ledger.gpu_microseconds / 3.6e9) > 1e-9, true) as is_out_of_bounds,
        (ledger.run_id = 'unallocated') <> (ledger.state in ('out_of_service', 'unallocated', 'borrowed'))
        or (ledger.run_id = 'unallocated') <> (ledger.workload_id = 'unallocated') as is_held_by_nobody,
        states.state is null or ledger.is_ghost <> states.is_ghost as is_in_no_state

    from ledger
    left join states on ledger.state = states.state

),

rows_counted as (

    select
        usage_date,
        cluster,
        count(*) as row_count,
        count(case when is_out_of_bounds then 1 end) as out_of_bounds_count,
        count(case when is_held_by_nobody then 1 end) as held_by_nobody_count,
        count(case when is_in_no_state then 1 end) as no_state_count,
        count(case when is_out_of_bounds or is_held_by_nobody or is_in_no_state then 1 end) as unsound_count

    from rows_judged
    group by usage_date, cluster

),

shares as (

    select
        usage_date,
        cluster,
        slot_id,
        started_at,
        sum(share) as share,
        min(share) as smallest_share,
        max(slot_fraction) as slot_fraction

    from spans
    group by usage_date, cluster, slot_id, started_at

),

shares_counted as (

    select
        usage_date,
        cluster,
        count(
            case when share > 1.0 + 1e-9 or smallest_share <= 0.0 or slot_fraction <= 0.0 or slot_fraction > 1.0 then 1 end
        ) as share_above_one_count

    from shares
    group by usage_date, cluster

),

coverage_counted as (

    select
        usage_date,
        cluster,
        count(case when covered_us > held_us + 1.0 or covered_us < -1.0 then 1 end) as covered_above_held_count

    from hours
    group by usage_date, cluster

),

final as (

    select
        rows_counted.usage_date,
        rows_counted.cluster,
        rows_counted.row_count as promised,
        rows_counted.row_count - rows_counted.unsound_count as measured,
        -rows_counted.unsound_count as difference,
        rows_counted.out_of_bounds_count,
        rows_counted.held_by_nobody_count,
        rows_counted.no_state_count,
        coalesce(shares_counted.share_above_one_count, 0) as share_above_one_count,
        coalesce(coverage_counted.covered_above_held_count, 0) as covered_above_held_count,
        rows_counted.unsound_count = 0
        and coalesce(shares_counted.share_above_one_count, 0) = 0
        and coalesce(coverage_counted.covered_above_held_count, 0) = 0 as holds

    from rows_counted
    left join shares_counted
        on rows_counted.usage_date = shares_counted.usage_date and rows_counted.cluster = shares_counted.cluster
    left join coverage_counted
        on rows_counted.usage_date = coverage_counted.usage_date and rows_counted.cluster = coverage_counted.cluster

)

select * from final
