-- Until when what a training or batch run did was worth its time: to its end if it completed, else to its last recorded
-- checkpoint, since what comes after one is lost with the run (semantics 6). Of a run that has not ended, too: what it
-- does next counts once a checkpoint has recorded it, or the run has completed.

with

runs as (

    select * from {{ ref('int_runs') }}
    where kind in ('training', 'batch') and held_from_at < held_until_at

),

events as (

    select * from {{ ref('stg_landing__training_events') }}
    where kind = 'checkpoint'

),

checkpoints as (

    select
        runs.run_id,
        max(events.at) as last_checkpoint_at

    from runs
    inner join events
        on
            runs.cluster = events.cluster
            and runs.job_id = events.job_id
            and events.at > runs.held_from_at
            and events.at <= runs.held_until_at
    group by runs.run_id

),

judged as (

    select
        runs.run_id,
        runs.held_from_at,
        runs.held_until_at,
        case
            when runs.end_kind = 'completed' then runs.held_until_at
            else coalesce(checkpoints.last_checkpoint_at, runs.held_from_at)
        end as good_until_at

    from runs
    left join checkpoints on runs.run_id = checkpoints.run_id

)

select * from judged
