-- Evidence of devices, put into one form before it is matched with runs. An index or a PCI address becomes the device that was
-- there (semantics 2), the name of a MIG instance its slot; a label that names a pod by namespace and name, in a cluster
-- whose pods nobody told of, gets the time for which it speaks: until the labels of its slot tell of others, at most to the
-- end of the cluster's telemetry.

with

told_run_gpus as (

    select * from {{ ref('stg_landing__run_gpus') }}

),

slot_names as (

    select * from {{ ref('int_slot_names') }}

),

runs as (

    select * from {{ ref('stg_landing__runs') }}

),

told_jobs as (

    select
        cluster,
        job_id,
        max(mig_profile) as mig_profile

    from runs
    group by cluster, job_id

),

split_cards as (

    select distinct cluster, gpu_id
    from slot_names
    where is_sighted

),

-- an instance is a slot of a card by whatever name; one that its card's inventory does not know is some instance of its
-- profile. Compute instances that one run holds of a slot are one part of it.
run_gpus as (

    select *
    from (
        select
            told_run_gpus.* exclude (gpu_uuid, slot_uuid, mig_profile, share_ratio),
            case
                when split_cards.gpu_id is not null and not coalesce(slot_names.is_sighted, false) then null
                else coalesce(told_run_gpus.gpu_uuid, slot_names.gpu_id)
            end as gpu_uuid,
            case
                when split_cards.gpu_id is not null and not coalesce(slot_names.is_sighted, false) then null
                else coalesce(slot_names.slot_id, told_run_gpus.slot_uuid)
            end as slot_uuid,
            case
                when split_cards.gpu_id is not null and not coalesce(slot_names.is_sighted, false)
                    then coalesce(told_run_gpus.mig_profile, told_jobs.mig_profile, '1g')
                else told_run_gpus.mig_profile
            end as mig_profile,
            case
                when slot_names.instance_part < 1.0
                    then least(1.0, sum(coalesce(told_run_gpus.share_ratio, 1.0) * slot_names.instance_part) over (
                        partition by
                            told_run_gpus.cluster, told_run_gpus.job_id, told_run_gpus.node, slot_names.slot_id,
                            slot_names.instance_part < 1.0, told_run_gpus.started_at
                    ))
                else told_run_gpus.share_ratio
            end as share_ratio,
            case
                when slot_names.instance_part < 1.0
                    then row_number() over (
                        partition by
                            told_run_gpus.cluster, told_run_gpus.job_id, told_run_gpus.node, slot_names.slot_id,
                            slot_names.instance_part < 1.0, told_run_gpus.started_at
                        order by told_run_gpus.slot_uuid nulls last
                    )
                else 1
            end as part_rank

        from told_run_gpus
        left join slot_names
            on told_run_gpus.cluster = slot_names.cluster and told_run_gpus.slot_uuid = slot_names.slot_name
        left join split_cards
            on
                told_run_gpus.cluster = split_cards.cluster
                and told_run_gpus.slot_uuid is not null
                and coalesce(told_run_gpus.gpu_uuid, slot_names.gpu_id) = split_cards.gpu_id
        left join told_jobs on told_run_gpus.cluster = told_jobs.cluster and told_run_gpus.job_id = told_jobs.job_id
    ) as named
    where part_rank = 1

),

indexed as (

    select * from {{ ref('int_gpus_indexed') }}

),

data_through as (

    select
        cluster,
        max(case when table_group = 'scheduler' then data_through_at end) as scheduler_through_at,
        max(case when table_group = 'telemetry' then data_through_at end) as telemetry_through_at

    from {{ source('control', 'data_through') }}
    group by cluster

),

kubernetes_clusters as (

    select distinct cluster
    from runs
    where scheduler = 'kubernetes'

),

index_claims as (

    select distinct
        cluster,
        node,
        gpu_index,
        started_at

    from run_gpus
    where gpu_uuid is null and mig_profile is null and gpu_index is not null

),

address_claims as (

    select distinct
        cluster,
        node,
        pci_bus_id,
        started_at

    from run_gpus
    where gpu_uuid is null and mig_profile is null and pci_bus_id is not null

),

-- a card has one address, partitioned or not: all of it is meant
addresses_resolved as (

    select
        address_claims.cluster,
        address_claims.node,
        address_claims.pci_bus_id,
        address_claims.started_at,
        max(indexed.gpu_id) as gpu_id

    from address_claims
    inner join indexed
        on
            address_claims.cluster = indexed.cluster
            and address_claims.node = indexed.node
            and {{ pci_address('address_claims.pci_bus_id') }} = indexed.pci_address
            and address_claims.started_at >= indexed.valid_from_at
            and address_claims.started_at < indexed.valid_until_at
    group by address_claims.cluster, address_claims.node, address_claims.pci_bus_id, address_claims.started_at

),

-- with a partitioned card at or before the index the scheduler counts instances: its index is no card's
indexes_resolved as (

    select
        index_claims.cluster,
        index_claims.node,
        index_claims.gpu_index,
        index_claims.started_at,
        case
            when not bool_or(indexed.is_partitioned)
                then max(case when indexed.gpu_index = index_claims.gpu_index then indexed.gpu_id end)
        end as gpu_id

    from index_claims
    inner join indexed
        on
            index_claims.cluster = indexed.cluster
            and index_claims.node = indexed.node
            and index_claims.gpu_index >= indexed.gpu_index
            and index_claims.started_at >= indexed.valid_from_at
            and index_claims.started_at < indexed.valid_until_at
    group by index_claims.cluster, index_claims.node, index_claims.gpu_index, index_claims.started_at

),

-- what the labels of a slot tell at an instant is the whole story if the holders' shares add up to the slot
labels_told as (

    select
        cluster,
        gpu_uuid,
        slot_uuid,
        started_at,
        sum(coalesce(share_ratio, 1.0)) > 0.999 as is_complete

    from run_gpus
    where gpu_uuid is not null and assignment_method like 'exporter_label%'
    group by cluster, gpu_uuid, slot_uuid, started_at

),

labels_followed as (

    select
        labels_told.*,
        min(case when is_complete then started_at end) over (
            partition by cluster, gpu_uuid, slot_uuid
            order by started_at nulls last
            rows between 1 following and unbounded following
        ) as next_told_at

    from labels_told

),

-- a card that is partitioned, or made whole again, has other slots from then on
partitionings as (

    select
        cluster,
        gpu_uuid,
        started_at,
        bool_or(slot_uuid is null) as is_whole,
        bool_or(slot_uuid is not null) as is_partitioned

    from labels_told
    group by cluster, gpu_uuid, started_at

),

partitionings_followed as (

    select
        partitionings.*,
        min(case when is_whole then started_at end) over (
            partition by cluster, gpu_uuid
            order by started_at nulls last
            rows between 1 following and unbounded following
        ) as next_whole_at,
        min(case when is_partitioned then started_at end) over (
            partition by cluster, gpu_uuid
            order by started_at nulls last
            rows between 1 following and unbounded following
        ) as next_partitioned_at

    from partitionings

),

resolved as (

    select
        run_gpus.cluster,
        run_gpus.job_id,
        run_gpus.node,
        coalesce(run_gpus.gpu_uuid, addresses_resolved.gpu_id, indexes_resolved.gpu_id) as gpu_uuid,
        run_gpus.slot_uuid,
        case when run_gpus.gpu_uuid is null then run_gpus.gpu_index end as gpu_index,
        case when run_gpus.gpu_uuid is null then run_gpus.pci_bus_id end as pci_bus_id,
        case when run_gpus.gpu_uuid is null then lower(run_gpus.mig_profile) end as mig_profile,
        run_gpus.gpu_count,
        run_gpus.share_ratio,
        run_gpus.started_at,
        run_gpus.ended_at as told_ended_at,
        least(
            coalesce(labels_followed.next_told_at, timestamp '9999-01-01'),
            coalesce(
                case
                    when run_gpus.slot_uuid is null then partitionings_followed.next_partitioned_at
                    else partitionings_followed.next_whole_at
                end,
                timestamp '9999-01-01'
            ),
            coalesce(data_through.telemetry_through_at, data_through.scheduler_through_at, timestamp '9999-01-01')
        ) as shown_until_at,
        run_gpus.assignment_method,
        coalesce(run_gpus.assignment_method like 'exporter_label%', false) as is_label,
        run_gpus.job_id like '%/%' and told_jobs.job_id is null as is_pod_name,
        run_gpus.job_id like '%/%' and told_jobs.job_id is null and kubernetes_clusters.cluster is null as is_name_only

    from run_gpus
    left join indexes_resolved
        on
            run_gpus.cluster = indexes_resolved.cluster
            and run_gpus.node = indexes_resolved.node
            and run_gpus.gpu_index = indexes_resolved.gpu_index
            and run_gpus.started_at = indexes_resolved.started_at
            and run_gpus.gpu_uuid is null
            and run_gpus.mig_profile is null
    left join addresses_resolved
        on
            run_gpus.cluster = addresses_resolved.cluster
            and run_gpus.node = addresses_resolved.node
            and run_gpus.pci_bus_id = addresses_resolved.pci_bus_id
            and run_gpus.started_at = addresses_resolved.started_at
            and run_gpus.gpu_uuid is null
            and run_gpus.mig_profile is null
    left join labels_followed
        on
            run_gpus.cluster = labels_followed.cluster
            and run_gpus.gpu_uuid = labels_followed.gpu_uuid
            and run_gpus.slot_uuid is not distinct from labels_followed.slot_uuid
            and run_gpus.started_at = labels_followed.started_at
    left join partitionings_followed
        on
            run_gpus.cluster = partitionings_followed.cluster
            and run_gpus.gpu_uuid = partitionings_followed.gpu_uuid
            and run_gpus.started_at = partitionings_followed.started_at
    left join told_jobs on run_gpus.cluster = told_jobs.cluster and run_gpus.job_id = told_jobs.job_id
    left join kubernetes_clusters on run_gpus.cluster = kubernetes_clusters.cluster
    left join data_through on run_gpus.cluster = data_through.cluster

)

select * from resolved
