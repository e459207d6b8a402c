-- Devices in whose place another one sits: two cards cannot share a PCI address, so a card that was recorded at one, and
-- nowhere since, is gone when another card is recorded there, whatever a scheduler still says of it.

with

indexed as (

    select * from {{ ref('int_gpus_indexed') }}
    where pci_address is not null

),

last_records as (

    select
        cluster,
        gpu_uuid as gpu_id,
        max(seen_at) as last_recorded_at

    from {{ ref('int_gpu_inventory_changes') }}
    group by cluster, gpu_uuid

),

left_places as (

    select
        cluster,
        gpu_id,
        max(valid_until_at) as displaced_at

    from indexed
    group by cluster, gpu_id

),

displaced as (

    select
        left_places.cluster,
        left_places.gpu_id,
        left_places.displaced_at

    from left_places
    inner join last_records on left_places.cluster = last_records.cluster and left_places.gpu_id = last_records.gpu_id
    where left_places.displaced_at < timestamp '9999-01-01' and last_records.last_recorded_at < left_places.displaced_at

)

select * from displaced
