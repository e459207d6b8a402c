with

runs as (

    select * from {{ ref('int_runs') }}

),

held_hours as (

    select * from {{ ref('int_gpu_ledger_hours') }}

),

-- the method of most of the time that a run held slots
methods as (

    select
        run_id,
        assignment_method

    from (
        select
            run_id,
            assignment_method,
            row_number() over (
                partition by run_id order by sum(held_us) desc nulls last, assignment_method nulls last
            ) as method_rank
        from {{ ref('int_run_methods') }}
        group by run_id, assignment_method
    ) as ranked
    where method_rank = 1

),

-- of days that this build database never held the evidence still tells
exact as (

    select
        run_id,
        min(assignment_method) as assignment_method

    from {{ ref('int_holds_exact') }}
    group by run_id

),

flags as (

    select
        run_id,
        {{ joined_text('distinct flag', 'flag') }} as flags

    from {{ ref('int_run_flags') }}
    group by run_id

),

held as (

    select
        run_id,
        cast(sum(gpu_microseconds) as bigint) / 3.6e9 as held_gpu_hours,
        cast(sum(case when state = 'suspended' then gpu_microseconds else 0 end) as bigint) / 3.6e9 as suspended_gpu_hours

    from held_hours
    where run_id <> 'unallocated'
    group by run_id

),

described as (

    select
        runs.run_id,
        runs.cluster,
        runs.job_id,
        runs.workload_id,
        coalesce(runs.name, '') as name,
        runs.queue,
        runs.state,
        runs.end_kind,
        runs.submitted_at,
        runs.started_at,
        runs.ended_at,
        runs.gpu_count,
        coalesce(held.held_gpu_hours, 0.0) as held_gpu_hours,
        coalesce(held.suspended_gpu_hours, 0.0) as suspended_gpu_hours,
        coalesce(
            methods.assignment_method, exact.assignment_method, case when runs.gpu_count > 0 then 'node_pool' else 'none' end
        ) as assignment_method,
        runs.is_provisional,
        {{ flags_of_run() }} as flags

    from runs
    left join held on runs.run_id = held.run_id
    left join methods on runs.run_id = methods.run_id
    left join exact on runs.run_id = exact.run_id
    left join flags on runs.run_id = flags.run_id

),

-- the member of time that nobody held
nobody as (

    select
        'unallocated' as run_id,
        'unallocated' as cluster,
        'unallocated' as job_id,
        'unallocated' as workload_id,
        '' as name,
        'unknown' as queue,
        'unallocated' as state,
        'other' as end_kind,
        cast(null as timestamp) as submitted_at,
        cast(null as timestamp) as started_at,
        cast(null as timestamp) as ended_at,
        cast(null as double) as gpu_count,
        0.0 as held_gpu_hours,
        0.0 as suspended_gpu_hours,
        'none' as assignment_method,
        false as is_provisional,
        '' as flags

),

members as (

    select * from described
    union all
    select * from nobody

)

select
    run_id,
    cluster,
    job_id,
    workload_id,
    name,
    queue,
    state,
    end_kind,
    submitted_at,
    started_at,
    ended_at,
    gpu_count,
    cast(held_gpu_hours as double) as held_gpu_hours,
    cast(suspended_gpu_hours as double) as suspended_gpu_hours,
    assignment_method,
    is_provisional,
    flags

from members
