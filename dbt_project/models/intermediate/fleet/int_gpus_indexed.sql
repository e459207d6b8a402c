-- Which device was at which index, and at which PCI address, of its node, and when. Neither identifies a device, both locate
-- it at a time (semantics 2): when a card is lost the ones behind it move up, and a replaced card sits where the old one sat.
-- A device stays at its place until it is recorded at another one or another device is recorded there; an empty place
-- speaks for the device that comes next.

with

inventory as (

    select * from {{ ref('int_gpu_inventory_changes') }}

),

records as (

    select
        cluster,
        gpu_uuid as gpu_id,
        seen_at,
        min(node) as node,
        min(gpu_index) as gpu_index,
        min({{ pci_address('pci_bus_id') }}) as pci_address,
        bool_or(slot_uuid is not null) as is_partitioned

    from inventory
    group by cluster, gpu_uuid, seen_at

),

places_told as (

    select
        cluster,
        gpu_id,
        seen_at,
        node,
        gpu_index,
        cast(null as varchar) as pci_address,
        'index ' || cast(gpu_index as varchar) as place,
        true as is_index,
        is_partitioned

    from records
    where gpu_index is not null

    union all

    select
        cluster,
        gpu_id,
        seen_at,
        node,
        cast(null as bigint) as gpu_index,
        pci_address,
        'address ' || pci_address as place,
        false as is_index,
        is_partitioned

    from records
    where pci_address is not null

),

marked as (

    select
        places_told.*,
        lag(node) over (partition by cluster, gpu_id, is_index order by seen_at nulls last) as node_before,
        lag(place) over (partition by cluster, gpu_id, is_index order by seen_at nulls last) as place_before,
        lag(is_partitioned) over (partition by cluster, gpu_id, is_index order by seen_at nulls last) as was_partitioned

    from places_told

),

moves as (

    select
        cluster,
        node,
        place,
        is_index,
        gpu_index,
        pci_address,
        gpu_id,
        is_partitioned,
        seen_at as came_at,
        coalesce(
            lead(seen_at) over (partition by cluster, gpu_id, is_index order by seen_at nulls last), timestamp '9999-01-01'
        ) as left_at

    from marked
    where
        node_before is null
        or node <> node_before
        or place <> place_before
        or is_partitioned <> was_partitioned

),

stays as (

    select
        cluster,
        node,
        place,
        gpu_index,
        pci_address,
        gpu_id,
        is_partitioned,
        came_at,
        least(
            left_at,
            coalesce(
                lead(came_at) over (
                    partition by cluster, node, place order by came_at nulls last, gpu_id nulls last
                ),
                left_at
            )
        ) as left_at

    from moves

),

places as (

    select
        cluster,
        node,
        gpu_index,
        pci_address,
        gpu_id,
        is_partitioned,
        coalesce(
            lag(left_at) over (partition by cluster, node, place order by came_at nulls last, gpu_id nulls last),
            timestamp '1970-01-01'
        ) as valid_from_at,
        left_at as valid_until_at

    from stays

)

select * from places
where valid_from_at < valid_until_at
