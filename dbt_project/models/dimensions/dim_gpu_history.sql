with

inventory as (

    select * from {{ ref('stg_landing__gpu_inventory') }}

),

sightings as (

    select
        cluster,
        gpu_uuid as gpu_id,
        seen_at,
        max(node) as node,
        max(pci_bus_id) as pci_bus_id,
        max(gpu_index) as gpu_index,
        max(serial) as serial,
        max(driver_version) as driver_version,
        max(gpu_model) as gpu_model,
        coalesce({{ joined_text("coalesce(mig_profile, slot_uuid)", 'slot_uuid') }}, '') as mig_layout

    from inventory
    group by cluster, gpu_uuid, seen_at

),

followed as (

    select
        sightings.*,
        md5(concat_ws(
            '|',
            cluster,
            node,
            coalesce(pci_bus_id, ''),
            coalesce(cast(gpu_index as varchar), ''),
            coalesce(serial, ''),
            coalesce(driver_version, ''),
            gpu_model,
            mig_layout
        )) as fingerprint,
        lag(md5(concat_ws(
            '|',
            cluster,
            node,
            coalesce(pci_bus_id, ''),
            coalesce(cast(gpu_index as varchar), ''),
            coalesce(serial, ''),
            coalesce(driver_version, ''),
            gpu_model,
            mig_layout
        ))) over (partition by gpu_id order by seen_at nulls last, cluster nulls last) as fingerprint_before

    from sightings

),

changes as (

    select * from followed
    where fingerprint_before is null or fingerprint <> fingerprint_before

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
