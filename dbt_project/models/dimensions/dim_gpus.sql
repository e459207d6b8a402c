with

device_hours as (

    select * from {{ ref('int_device_hours') }}

),

inventory_spans as (

    select * from {{ ref('int_gpu_inventory_spans') }}

),

inventory as (

    select * from {{ ref('int_gpu_inventory_changes') }}

),

sightings as (

    select * from {{ ref('int_gpu_sightings') }}

),

layouts as (

    select * from {{ ref('int_gpu_layouts') }}

),

-- a device that one inventory record names, and nothing else, has no time in inventory and is known all the same
seen as (

    select
        cluster,
        gpu_id,
        max_by(node, ended_at) as node,
        min(started_at) as first_seen_at,
        max(ended_at) as last_seen_at

    from (
        select cluster, gpu_id, node, started_at, ended_at from inventory_spans
        union all
        select cluster, gpu_id, node, seen_from_at as started_at, seen_until_at as ended_at from sightings
    ) as spans_and_instants
    group by cluster, gpu_id

),

implied as (

    select
        cluster,
        gpu_id,
        max(node) as node,
        max_by(gpu_model, hour_start_at) as gpu_model,
        min(hour_start_at) as first_seen_at,
        max(hour_start_at) + interval 1 hour as last_seen_at

    from device_hours
    where is_implied
    group by cluster, gpu_id

),

known as (

    select cluster, gpu_id, node, cast(null as varchar) as implied_model, first_seen_at, last_seen_at, false as is_implied
    from seen
    union all
    select cluster, gpu_id, node, gpu_model as implied_model, first_seen_at, last_seen_at, true as is_implied
    from implied

),

told as (

    select
        cluster,
        gpu_uuid as gpu_id,
        max_by(gpu_model, seen_at) as gpu_model,
        max(case when slot_uuid is null then memory_total_bytes end) as memory_bytes,
        max_by(pci_bus_id, seen_at) as pci_bus_id

    from inventory
    group by cluster, gpu_uuid

),

slots as (

    select
        cluster,
        gpu_id,
        cast(count(distinct slot_id) as bigint) as slot_count

    from layouts
    where valid_until_at = timestamp '9999-01-01'
    group by cluster, gpu_id

),

described as (

    select
        known.gpu_id,
        known.cluster,
        known.node,
        known.cluster || '/' || known.node as node_id,
        coalesce(told.gpu_model, known.implied_model, 'unknown') as gpu_model,
        told.memory_bytes,
        told.pci_bus_id,
        known.first_seen_at,
        known.last_seen_at,
        coalesce(slots.slot_count, 1) as slot_count,
        known.is_implied,
        row_number() over (
            partition by known.gpu_id order by known.last_seen_at desc nulls last, known.cluster nulls last
        ) as cluster_rank

    from known
    left join told on known.cluster = told.cluster and known.gpu_id = told.gpu_id
    left join slots on known.cluster = slots.cluster and known.gpu_id = slots.gpu_id

)

-- a card that moved to another cluster is where it was last seen
select * exclude (cluster_rank) from described
where cluster_rank = 1
