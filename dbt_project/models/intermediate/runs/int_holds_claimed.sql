-- What each run says it holds, before the devices are asked: an exact device (or MIG instance), or a number of GPUs
-- on a node. Evidence of a device whose run nobody told of becomes a run of its own, owner unknown (case A14).

with

runs as (

    select * from {{ ref('int_runs_named') }}

),

run_gpus as (

    select * from {{ ref('stg_landing__run_gpus') }}

),

data_through as (

    select
        cluster,
        max(case when table_group = 'scheduler' then data_through_at end) as scheduler_through_at

    from {{ source('control', 'data_through') }}
    group by cluster

),

build_window as (

    select * from {{ source('control', 'build_window') }}

),

-- job_id and a start inside the run's time identify the attempt; of several the one that began last
evidence_matched as (

    select
        run_gpus.*,
        runs.run_id,
        runs.held_from_at,
        runs.held_until_at,
        runs.share_ratio as run_share_ratio,
        row_number() over (
            partition by
                run_gpus.cluster, run_gpus.job_id, run_gpus.node, run_gpus.gpu_uuid, run_gpus.slot_uuid, run_gpus.started_at
            order by runs.started_at desc nulls last
        ) as match_rank

    from run_gpus
    left join runs
        on
            run_gpus.cluster = runs.cluster
            and run_gpus.job_id = runs.job_id
            and runs.held_from_at is not null
            and run_gpus.started_at >= runs.held_from_at
            and (run_gpus.started_at < runs.held_until_at or runs.ended_at is null)

),

known_jobs as (

    select distinct cluster, job_id
    from runs

),

-- evidence outside the time of a job that is known (a label scraped after the pod had ended) holds nothing
evidence as (

    select
        coalesce(evidence_matched.run_id, evidence_matched.cluster || '/' || evidence_matched.job_id) as run_id,
        evidence_matched.run_id is null as is_orphan,
        evidence_matched.cluster,
        evidence_matched.job_id,
        evidence_matched.node,
        evidence_matched.gpu_uuid,
        evidence_matched.slot_uuid,
        evidence_matched.gpu_count,
        coalesce(evidence_matched.share_ratio, evidence_matched.run_share_ratio) as share_ratio,
        -- a label on a scrape shows the holder from the first scrape on; a pod does not change its devices
        case
            when evidence_matched.assignment_method like 'exporter_label%' and evidence_matched.held_from_at is not null
                then evidence_matched.held_from_at
            else evidence_matched.started_at
        end as started_at,
        least(
            coalesce(
                evidence_matched.ended_at,
                evidence_matched.held_until_at,
                data_through.scheduler_through_at
            ),
            coalesce(evidence_matched.held_until_at, timestamp '9999-01-01'),
            coalesce(build_window.end_at, timestamp '9999-01-01')
        ) as ended_at,
        coalesce(evidence_matched.assignment_method, 'reported') as assignment_method

    from evidence_matched
    left join data_through on evidence_matched.cluster = data_through.cluster
    left join known_jobs
        on evidence_matched.cluster = known_jobs.cluster and evidence_matched.job_id = known_jobs.job_id
    cross join build_window
    where
        evidence_matched.match_rank = 1
        and (evidence_matched.run_id is not null or known_jobs.job_id is null)

),

runs_with_evidence as (

    select distinct run_id
    from evidence

),

runs_on_nodes as (

    select
        runs.run_id,
        runs.cluster,
        runs.job_id,
        runs.gpu_count,
        runs.share_ratio,
        runs.held_from_at,
        runs.held_until_at,
        runs.node_list,
        {{ each_item('runs.node_list') }} as node

    from runs
    left join runs_with_evidence on runs.run_id = runs_with_evidence.run_id
    where
        runs_with_evidence.run_id is null
        and runs.gpu_count > 0
        and runs.held_from_at is not null
        and coalesce(runs.node_list, '') <> ''

),

-- a run whose count is known but not its nodes' share is spread evenly over its nodes
spread as (

    select
        run_id,
        false as is_orphan,
        cluster,
        job_id,
        node,
        cast(null as varchar) as gpu_uuid,
        cast(null as varchar) as slot_uuid,
        gpu_count / count(*) over (partition by run_id) as gpu_count,
        share_ratio,
        held_from_at as started_at,
        held_until_at as ended_at,
        'node_pool' as assignment_method

    from runs_on_nodes

),

-- a run on no node we know of still held its GPUs: a node of its own, implied
placeless as (

    select
        runs.run_id,
        false as is_orphan,
        runs.cluster,
        runs.job_id,
        'unknown' as node,
        cast(null as varchar) as gpu_uuid,
        cast(null as varchar) as slot_uuid,
        runs.gpu_count,
        runs.share_ratio,
        runs.held_from_at as started_at,
        runs.held_until_at as ended_at,
        'node_pool' as assignment_method

    from runs
    left join runs_with_evidence on runs.run_id = runs_with_evidence.run_id
    where
        runs_with_evidence.run_id is null
        and runs.gpu_count > 0
        and runs.held_from_at is not null
        and coalesce(runs.node_list, '') = ''

),

claimed as (

    select * from evidence
    union all
    select * from spread
    union all
    select * from placeless

)

select * from claimed
where started_at < ended_at
