-- Minutes in which a run was, or was a part of, a replica that its service did not need (rule 6): in each minute, of the
-- replicas that hold in it, as many as are above need, those with the lowest mean activity over the hour first, those
-- never sampled last, ties by run id. A group of runs goes as a whole.

{{ config(database='scratch') }}

with

needs as (

    select * from {{ ref('int_replica_needs_hourly') }}
    where silent_reason = '' and needed_replica_count < replica_count_max

),

stretches as (

    select * from {{ ref('int_replica_stretches') }}

),

spans as (

    select * from {{ ref('int_held_spans') }}
    where kind = 'inference' and {{ in_replaced_days('usage_date') }}

),

runs as (

    select * from {{ ref('int_runs') }}

),

observed as (

    select * from {{ ref('int_held_minutes_observed') }}

),

replica_runs as (

    select distinct
        spans.workload_id,
        coalesce(nullif(runs.replica_group, ''), spans.run_id) as replica_name,
        spans.run_number

    from spans
    inner join runs on spans.run_id = runs.run_id

),

services_above_need as (

    select distinct workload_id
    from needs

),

holds_above_need as (

    select
        spans.hold_number,
        spans.run_number

    from spans
    inner join services_above_need on spans.workload_id = services_above_need.workload_id

),

run_hours as (

    select
        holds_above_need.run_number,
        date_trunc('hour', observed.minute_start_at) as hour_start_at,
        sum(observed.activity_ratio * observed.covered_us) as activity_us,
        sum(observed.covered_us) as covered_us

    from observed
    inner join holds_above_need on observed.hold_number = holds_above_need.hold_number
    group by holds_above_need.run_number, date_trunc('hour', observed.minute_start_at)

),

replica_hours as (

    select
        replica_runs.workload_id,
        replica_runs.replica_name,
        run_hours.hour_start_at,
        -- rounded: sums of the same readings differ in the last digit, and ties go by run id
        round(sum(run_hours.activity_us) / nullif(sum(run_hours.covered_us), 0), 12) as activity_ratio

    from run_hours
    inner join replica_runs on run_hours.run_number = replica_runs.run_number
    group by replica_runs.workload_id, replica_runs.replica_name, run_hours.hour_start_at

),

ranked as (

    select
        stretches.workload_id,
        stretches.replica_name,
        stretches.started_at,
        stretches.ended_at,
        stretches.replica_count - needs.needed_replica_count as surplus_count,
        row_number() over (
            partition by stretches.workload_id, stretches.started_at
            order by replica_hours.activity_ratio asc nulls last, stretches.first_run_id nulls last
        ) as surplus_rank

    from stretches
    inner join needs
        on
            stretches.hour_start_at = needs.hour_start_at
            and stretches.workload_id = needs.workload_id
    left join replica_hours
        on
            stretches.hour_start_at = replica_hours.hour_start_at
            and stretches.workload_id = replica_hours.workload_id
            and stretches.replica_name = replica_hours.replica_name

),

surplus as (

    select
        replica_runs.run_number,
        {{ each_touched('minute', 'ranked.started_at', 'ranked.ended_at') }} as minute_start_at

    from ranked
    inner join replica_runs
        on
            ranked.workload_id = replica_runs.workload_id
            and ranked.replica_name = replica_runs.replica_name
    where ranked.surplus_rank <= ranked.surplus_count

)

select * from surplus
