-- What each run says it holds, before the devices are asked: an exact device (or MIG instance), or a number of GPUs, or
-- of instances of a MIG profile, on a node. How many they are the scheduler says: what no evidence places is claimed of
-- the pools of the run's nodes. Evidence of a device whose run nobody told of becomes a run of its own, owner unknown
-- (case A14).

with

runs as (

    select * from {{ ref('int_runs_named') }}

),

run_gpus as (

    select * from {{ ref('int_run_gpus_resolved') }}

),

displaced as (

    select * from {{ ref('int_gpus_displaced') }}

),

data_through as (

    select
        cluster,
        max(case when table_group = 'scheduler' then data_through_at end) as scheduler_through_at

    from {{ source('control', 'data_through') }}
    group by cluster

),

known_jobs as (

    select * from {{ ref('int_runs_known_as') }}

),

-- Slurm's accounting knows jobs by number: a label that names one by another id, which no run has, tells nothing of it
-- (case B18)
slurm_clusters as (

    select distinct cluster
    from runs
    where scheduler = 'slurm'

),

-- a job's id (a pod's name) and a start inside the run's time identify the attempt; of several the one that began last
evidence_matched as (

    select
        run_gpus.*,
        runs.run_id,
        runs.held_from_at,
        runs.held_until_at,
        runs.share_ratio as run_share_ratio,
        coalesce(runs.is_placeholder, false) as is_placeholder,
        row_number() over (
            partition by
                run_gpus.cluster, run_gpus.job_id, run_gpus.node, run_gpus.gpu_uuid, run_gpus.slot_uuid, run_gpus.gpu_index,
                run_gpus.pci_bus_id, run_gpus.mig_profile, run_gpus.started_at
            order by runs.started_at desc nulls last, runs.run_id nulls last
        ) as match_rank

    from run_gpus
    left join known_jobs on run_gpus.cluster = known_jobs.cluster and run_gpus.job_id = known_jobs.known_as
    left join runs
        on
            known_jobs.run_id = runs.run_id
            and runs.held_from_at is not null
            and run_gpus.started_at >= runs.held_from_at
            and (run_gpus.started_at < runs.held_until_at or runs.ended_at is null)

),

-- evidence outside the time of a job that is known (a label scraped after the pod had ended) holds nothing, nor does
-- the name of a pod that its cluster does not know
evidence as (

    select
        coalesce(evidence_matched.run_id, evidence_matched.cluster || '/' || evidence_matched.job_id) as run_id,
        evidence_matched.run_id is null as is_orphan,
        evidence_matched.cluster,
        evidence_matched.job_id,
        evidence_matched.node,
        evidence_matched.gpu_uuid,
        evidence_matched.slot_uuid,
        -- a place, by index or by address
        coalesce(cast(evidence_matched.gpu_index as varchar), evidence_matched.pci_bus_id) as place,
        evidence_matched.mig_profile,
        evidence_matched.gpu_count,
        -- a label tells who holds a device, not how much of it: the run's own share comes first, then the smallest told
        case
            when evidence_matched.is_label and not evidence_matched.is_name_only
                then coalesce(
                    evidence_matched.run_share_ratio,
                    min(evidence_matched.share_ratio) over (
                        partition by
                            evidence_matched.run_id,
                            evidence_matched.job_id,
                            evidence_matched.gpu_uuid,
                            evidence_matched.slot_uuid
                    )
                )
            else coalesce(evidence_matched.share_ratio, evidence_matched.run_share_ratio)
        end as share_ratio,
        -- a label on a scrape shows the holder from the first scrape on; a pod does not change its devices
        case
            when
                evidence_matched.is_label and not evidence_matched.is_name_only and evidence_matched.held_from_at is not null
                then evidence_matched.held_from_at
            else evidence_matched.started_at
        end as started_at,
        least(
            coalesce(
                evidence_matched.told_ended_at,
                evidence_matched.held_until_at,
                data_through.scheduler_through_at
            ),
            case when evidence_matched.is_name_only then evidence_matched.shown_until_at else timestamp '9999-01-01' end,
            coalesce(evidence_matched.held_until_at, timestamp '9999-01-01'),
            coalesce(displaced.displaced_at, timestamp '9999-01-01')
        ) as ended_at,
        coalesce(evidence_matched.assignment_method, 'reported') as assignment_method,
        evidence_matched.is_name_only,
        evidence_matched.is_placeholder

    from evidence_matched
    left join data_through on evidence_matched.cluster = data_through.cluster
    left join (select distinct cluster, known_as from known_jobs) as known
        on evidence_matched.cluster = known.cluster and evidence_matched.job_id = known.known_as
    left join slurm_clusters on evidence_matched.cluster = slurm_clusters.cluster
    left join displaced
        on
            evidence_matched.cluster = displaced.cluster
            and evidence_matched.gpu_uuid = displaced.gpu_id
            and evidence_matched.started_at < displaced.displaced_at
    where
        evidence_matched.match_rank = 1
        and (
            evidence_matched.run_id is not null
            or (
                known.known_as is null
                and not evidence_matched.is_pod_name
                and not (
                    evidence_matched.is_label
                    and slurm_clusters.cluster is not null
                    and {{ leading_number('evidence_matched.job_id') }} is null
                )
            )
        )

),

-- an index (or an address) that was told twice is one device, the one that it meant when it was first told; two
-- instances of the card there are two
evidence_once as (

    select *
    from (
        select
            evidence.* exclude (ended_at),
            case
                when place is null then ended_at
                else max(ended_at) over (partition by run_id, node, place, slot_uuid, mig_profile)
            end as ended_at,
            case
                when place is null then 1
                else row_number() over (
                    partition by run_id, node, place, slot_uuid, mig_profile order by started_at nulls last
                )
            end as telling_rank
        from evidence
    ) as told
    where telling_rank = 1

),

-- how many devices of each node the evidence names, how many it only counts
evidence_on_nodes as (

    select
        run_id,
        node,
        count(distinct case when gpu_uuid is not null then concat_ws('|', gpu_uuid, slot_uuid) end) as placed_count,
        sum(case when gpu_uuid is null or place is not null then gpu_count else 0.0 end) as counted_count,
        sum(case when gpu_uuid is null then gpu_count else 0.0 end) as unplaced_count,
        bool_or(share_ratio is not null) as is_shared

    from evidence_once
    group by run_id, node

),

runs_with_evidence as (

    select
        run_id,
        sum(placed_count) as placed_count,
        sum(counted_count) as counted_count,
        bool_or(is_shared) as is_shared

    from evidence_on_nodes
    group by run_id

),

-- devices that were counted and named as well are claimed once
evidence_claimed as (

    select
        evidence_once.run_id,
        evidence_once.is_orphan,
        evidence_once.cluster,
        evidence_once.job_id,
        evidence_once.node,
        evidence_once.gpu_uuid,
        evidence_once.slot_uuid,
        evidence_once.mig_profile,
        case
            when evidence_once.gpu_uuid is not null then evidence_once.gpu_count
            when evidence_on_nodes.placed_count = 0 then evidence_once.gpu_count
            else evidence_once.gpu_count
                * greatest(
                    0.0,
                    least(
                        1.0,
                        (evidence_on_nodes.counted_count - evidence_on_nodes.placed_count)
                        / nullif(evidence_on_nodes.unplaced_count, 0.0)
                    )
                )
        end as gpu_count,
        evidence_once.share_ratio,
        evidence_once.started_at,
        evidence_once.ended_at,
        case when evidence_once.gpu_uuid is null then 'node_pool' else evidence_once.assignment_method end as assignment_method,
        evidence_once.is_name_only,
        evidence_once.is_placeholder

    from evidence_once
    inner join evidence_on_nodes
        on evidence_once.run_id = evidence_on_nodes.run_id and evidence_once.node = evidence_on_nodes.node

),

-- a run whose count is known but not its nodes' share is spread evenly over its nodes; a run on no node we know of still
-- held its GPUs: on a node of its own, implied. Devices that evidence names are taken off their node's part.
runs_on_nodes as (

    select
        runs.run_id,
        runs.cluster,
        runs.job_id,
        runs.mig_profile,
        runs.gpu_count,
        runs.share_ratio,
        runs.held_from_at,
        runs.held_until_at,
        coalesce(runs_with_evidence.placed_count, 0) as placed_count,
        {{ each_item("case when coalesce(runs.node_list, '') = '' then 'unknown' else runs.node_list end") }} as node

    from runs
    left join runs_with_evidence on runs.run_id = runs_with_evidence.run_id
    where
        runs.gpu_count > 0
        and runs.held_from_at is not null
        and not runs.is_known_by_name
        and not runs.is_placeholder
        and (
            runs_with_evidence.run_id is null
            or (
                runs_with_evidence.counted_count = 0
                and not runs_with_evidence.is_shared
                and runs_with_evidence.placed_count < runs.gpu_count
            )
        )

),

node_parts as (

    select
        runs_on_nodes.*,
        greatest(
            0.0,
            gpu_count / count(*) over (partition by runs_on_nodes.run_id) - coalesce(evidence_on_nodes.placed_count, 0)
        ) as missing_count

    from runs_on_nodes
    left join evidence_on_nodes
        on runs_on_nodes.run_id = evidence_on_nodes.run_id and runs_on_nodes.node = evidence_on_nodes.node

),

spread as (

    select
        run_id,
        false as is_orphan,
        cluster,
        job_id,
        node,
        cast(null as varchar) as gpu_uuid,
        cast(null as varchar) as slot_uuid,
        mig_profile,
        case
            when placed_count = 0 then missing_count
            else missing_count * (gpu_count - placed_count) / sum(missing_count) over (partition by run_id)
        end as gpu_count,
        share_ratio,
        held_from_at as started_at,
        held_until_at as ended_at,
        'node_pool' as assignment_method,
        false as is_name_only,
        false as is_placeholder

    from node_parts
    where missing_count > 0.0

),

claimed as (

    select * from evidence_claimed
    where started_at < ended_at and (gpu_uuid is not null or gpu_count > 0.0)
    union all
    select * from spread
    where started_at < ended_at

),

-- a pod that reserves a card for those that share it holds the card only where nobody knows them
replaced as (

    select
        placeholders.run_id,
        placeholders.gpu_uuid

    from claimed as placeholders
    inner join claimed as sharers
        on
            placeholders.cluster = sharers.cluster
            and placeholders.gpu_uuid = sharers.gpu_uuid
            and placeholders.started_at < sharers.ended_at
            and placeholders.ended_at > sharers.started_at
    where placeholders.is_placeholder and not sharers.is_placeholder

    union

    select
        placeholders.run_id,
        placeholders.gpu_uuid

    from claimed as placeholders
    inner join claimed as sharers
        on
            placeholders.cluster = sharers.cluster
            and placeholders.node = sharers.node
            and placeholders.started_at < sharers.ended_at
            and placeholders.ended_at > sharers.started_at
    where
        placeholders.is_placeholder
        and not sharers.is_placeholder
        and sharers.gpu_uuid is null
        and sharers.share_ratio is not null

),

claims as (

    select
        claimed.run_id,
        claimed.is_orphan,
        claimed.cluster,
        claimed.job_id,
        claimed.node,
        claimed.gpu_uuid,
        claimed.slot_uuid,
        claimed.mig_profile,
        claimed.gpu_count,
        claimed.share_ratio,
        claimed.started_at,
        claimed.ended_at,
        claimed.assignment_method,
        claimed.is_name_only

    from claimed
    left join replaced
        on claimed.run_id = replaced.run_id and claimed.gpu_uuid is not distinct from replaced.gpu_uuid
    where replaced.run_id is null

)

select * from claims
