-- Minutes in which a slot waited for a busier one (rule 7): below `unbalanced_quiet_ratio`, at least `unbalanced_minutes` in
-- a row, while another slot of the same run, or of the same inference service, worked at `unbalanced_busy_ratio` or more; not
-- always the same one. Both by a signal that says how much of the card worked: utilisation only says that some kernel ran.

{{ config(database='scratch') }}

with

spans as (

    select
        slot_run_number,
        slot_id,
        case when kind = 'inference' then workload_id else run_id end as sibling_id

    from {{ ref('int_held_spans') }}

),

siblings as (

    select
        sibling_id,
        row_number() over (order by sibling_id nulls last) as sibling_number

    from spans
    group by sibling_id
    having count(distinct slot_id) > 1

),

slot_runs as (

    select distinct
        spans.slot_run_number,
        siblings.sibling_number

    from spans
    inner join siblings on spans.sibling_id = siblings.sibling_id

),

busy as (

    select
        slot_runs.sibling_number,
        observed.minute_start_at,
        max(observed.activity_ratio) as activity_ratio

    from {{ ref('int_held_minutes_observed') }} as observed
    inner join slot_runs on observed.slot_run_number = slot_runs.slot_run_number
    where
        observed.signal in (1, 2)
        and observed.covered_us > 0
        and round(observed.activity_ratio, 9) >= {{ var('unbalanced_busy_ratio') }}
    group by slot_runs.sibling_number, observed.minute_start_at

),

-- a hold that is cut within a minute has several rows of it
quiet as (

    select
        observed.slot_run_number,
        observed.minute_start_at,
        min(observed.activity_ratio) as activity_ratio,
        sum(observed.covered_us) as covered_us,
        max(busy.activity_ratio) as sibling_activity_ratio

    from {{ ref('int_held_minutes_observed') }} as observed
    inner join slot_runs on observed.slot_run_number = slot_runs.slot_run_number
    inner join busy
        on slot_runs.sibling_number = busy.sibling_number and observed.minute_start_at = busy.minute_start_at
    where
        observed.signal in (1, 2)
        and observed.covered_us > 0
        and round(observed.activity_ratio, 9) < {{ var('unbalanced_quiet_ratio') }}
    group by observed.slot_run_number, observed.minute_start_at

),

numbered as (

    select
        quiet.*,
        {{ row_of_minutes(['slot_run_number'], 'minute_start_at') }} as stretch_number

    from quiet

),

counted as (

    select
        slot_run_number,
        minute_start_at,
        cast(minute_start_at as date) as usage_date,
        activity_ratio,
        covered_us,
        sibling_activity_ratio,
        count(*) over (partition by slot_run_number, stretch_number) as minutes_in_a_row

    from numbered

)

select * exclude (minutes_in_a_row) from counted
where minutes_in_a_row >= {{ var('unbalanced_minutes') }}
