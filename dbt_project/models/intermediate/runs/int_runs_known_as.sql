-- What evidence may call a run: its job or uid, a pod by namespace and name.

with

runs as (

    select * from {{ ref('int_runs_named') }}

),

known_jobs as (

    select
        cluster,
        job_id as known_as,
        run_id

    from runs

    union

    select
        cluster,
        namespace || '/' || name as known_as,
        run_id

    from runs
    where scheduler = 'kubernetes'

    union

    -- Slurm's newer id of a job, and its tasks and components as Slurm prints them
    select
        cluster,
        {{ json_text('labels', 'sluid') }} as known_as,
        run_id

    from runs
    where scheduler = 'slurm' and {{ json_text('labels', 'sluid') }} is not null

    union

    select
        cluster,
        {{ json_text('labels', 'array_job_id') }} || '_' || {{ json_text('labels', 'array_task_id') }} as known_as,
        run_id

    from runs
    where scheduler = 'slurm' and {{ json_text('labels', 'array_task_id') }} is not null

    union

    select
        cluster,
        {{ json_text('labels', 'het_job_id') }} || '+' || {{ json_text('labels', 'het_offset') }} as known_as,
        run_id

    from runs
    where scheduler = 'slurm' and {{ json_text('labels', 'het_offset') }} is not null

)

select * from known_jobs
where known_as is not null
