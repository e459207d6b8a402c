with

inventory as (

    select * from {{ ref('int_gpu_inventory_changes') }}

),

-- an instance once, whatever its compute instances and its sources call it
slots_sighted as (

    select
        inventory.cluster,
        inventory.gpu_uuid as gpu_id,
        inventory.seen_at,
        slot_names.slot_id,
        max(coalesce(
            {{ captured_text('inventory.mig_profile', "'^[0-9]+c[.](.+)$'") }}, inventory.mig_profile, slot_names.slot_id
        )) as mig_profile

    from inventory
    inner join {{ ref('int_slot_names') }} as slot_names
        on inventory.cluster = slot_names.cluster and inventory.slot_uuid = slot_names.slot_name
    group by inventory.cluster, inventory.gpu_uuid, inventory.seen_at, slot_names.slot_id

),

layouts_sighted as (

    select
        cluster,
        gpu_id,
        seen_at,
        {{ joined_text('mig_profile', 'slot_id') }} as mig_layout

    from slots_sighted
    group by cluster, gpu_id, seen_at

),

sightings as (

    select
        inventory.cluster,
        inventory.gpu_uuid as gpu_id,
        inventory.seen_at,
        max(inventory.node) as node,
        max(inventory.pci_bus_id) as pci_bus_id,
        max(inventory.gpu_index) as gpu_index,
        max(inventory.serial) as serial,
        max(inventory.driver_version) as driver_version,
        max(inventory.gpu_model) as gpu_model,
        coalesce(max(layouts_sighted.mig_layout), '') as mig_layout

    from inventory
    left join layouts_sighted
        on
            inventory.cluster = layouts_sighted.cluster
            and inventory.gpu_uuid = layouts_sighted.gpu_id
            and inventory.seen_at = layouts_sighted.seen_at
    group by inventory.cluster, inventory.gpu_uuid, inventory.seen_at

),

described as (

    select
        sightings.*,
        concat_ws(
            '|',
            cluster,
            node,
            coalesce(pci_bus_id, ''),
            coalesce(cast(gpu_index as varchar), ''),
            coalesce(serial, ''),
            coalesce(driver_version, ''),
            gpu_model,
            mig_layout
        ) as facts

    from sightings

),

followed as (

    select
        described.*,
        lag(facts) over (partition by gpu_id order by seen_at nulls last, cluster nulls last) as facts_before

    from described

),

changes as (

    select * from followed
    where facts_before is null or facts <> facts_before

)

select
    gpu_id,
    seen_at as valid_from_at,
    lead(seen_at) over (partition by gpu_id order by seen_at nulls last, cluster nulls last) as valid_to_at,
    cluster,
    node,
    pci_bus_id,
    gpu_index,
    serial,
    driver_version,
    gpu_model,
    mig_layout

from changes
