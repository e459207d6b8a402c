-- What inventory says of each device that its hours take from its newest record: model, provider, the id by which bills know
-- it, and the region of its node. A record that comes later may tell the days before it anew: a rate card of its provider,
-- a bill of its id, the carbon intensity of its region then count there too.

with

inventory as (

    select * from {{ ref('int_gpu_inventory_changes') }}

),

devices as (

    select
        cluster,
        gpu_uuid as gpu_id,
        max_by(node, seen_at) as node,
        max_by(gpu_model, seen_at) as gpu_model,
        max_by(provider, seen_at) as provider,
        max_by(provider_resource_id, seen_at) as provider_resource_id

    from inventory
    group by cluster, gpu_uuid

),

nodes as (

    select
        cluster,
        node,
        max_by(region, seen_at) as region

    from inventory
    group by cluster, node

),

compared as (

    select
        devices.cluster || '/' || devices.gpu_id as change_key,
        md5(concat_ws(
            '|',
            devices.gpu_model,
            coalesce(devices.provider, ''),
            coalesce(devices.provider_resource_id, ''),
            coalesce(nodes.region, '')
        )) as fingerprint

    from devices
    left join nodes on devices.cluster = nodes.cluster and devices.node = nodes.node

)

select * from compared
