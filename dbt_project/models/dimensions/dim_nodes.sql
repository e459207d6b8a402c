with

gpus as (

    select * from {{ ref('dim_gpus') }}

),

nodes as (

    select * from {{ ref('stg_landing__nodes') }}

),

inventory as (

    select * from {{ ref('int_gpu_inventory_changes') }}

),

-- also the nodes that a card has left since
device_hours as (

    select * from {{ ref('int_device_hours') }}

),

names as (

    select cluster, node from gpus
    union
    select cluster, node from device_hours
    union
    select cluster, node from inventory
    union
    select cluster, node from nodes

),

machines as (

    select
        cluster,
        node,
        max_by(instance_type, seen_at) as instance_type,
        max_by(is_spot, seen_at) as is_spot

    from nodes
    group by cluster, node

),

places as (

    select
        cluster,
        node,
        max_by(provider, seen_at) as provider,
        max_by(provider_resource_id, seen_at) as provider_resource_id,
        max_by(region, seen_at) as region,
        max_by(zone, seen_at) as zone,
        max_by(rack, seen_at) as rack

    from inventory
    group by cluster, node

),

described as (

    select
        names.cluster || '/' || names.node as node_id,
        names.cluster,
        names.node,
        places.provider,
        places.provider_resource_id,
        places.region,
        places.zone,
        places.rack,
        machines.instance_type,
        coalesce(machines.is_spot, false) as is_spot

    from names
    left join machines on names.cluster = machines.cluster and names.node = machines.node
    left join places on names.cluster = places.cluster and names.node = places.node

)

select * from described
