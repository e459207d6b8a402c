-- How each device was partitioned, and when. A new layout holds from the first sighting that shows it; the first one
-- also before it. What a partitioning leaves over is one more slot, `stranded`, so that the fractions of a device
-- always add up to 1 (semantics 2). A MIG instance that only samples know counts one slice. Compute instances of one GPU
-- instance are one slot, by whatever name a source calls it.

with

inventory as (

    select * from {{ ref('int_gpu_inventory_changes') }}

),

slot_names as (

    select * from {{ ref('int_slot_names') }}

),

sampled_slots as (

    select distinct
        series.cluster,
        series.gpu_uuid as gpu_id,
        coalesce(slot_names.slot_id, series.slot_uuid) as slot_uuid

    from {{ ref('int_sample_series') }} as series
    left join slot_names on series.cluster = slot_names.cluster and series.slot_uuid = slot_names.slot_name
    where series.slot_uuid is not null

),

claims as (

    select * from {{ ref('int_holds_claimed') }}
    where gpu_uuid is not null

),

sightings as (

    select * from {{ ref('int_gpu_sightings') }}

),

sighted_slots as (

    select
        inventory.cluster,
        inventory.gpu_uuid as gpu_id,
        inventory.seen_at,
        slot_names.slot_id as slot_uuid,
        -- of a part of a GPU instance the profile of the whole is the slot's
        max(coalesce(
            {{ captured_text('inventory.mig_profile', "'^[0-9]+c[.](.+)$'") }}, inventory.mig_profile
        )) as mig_profile,
        max(inventory.memory_total_bytes) as memory_total_bytes,
        coalesce(
            max(case
                when {{ is_found("'^[0-9]+c[.]'", 'inventory.mig_profile') }}
                    then cast({{ captured_text('inventory.mig_profile', "'([0-9]+)g[.]'") }} as bigint)
                else inventory.compute_slices
            end),
            max(cast({{ captured_text('inventory.mig_profile', "'([0-9]+)g[.]'") }} as bigint)),
            1
        ) as compute_slices,
        coalesce(
            max(inventory.card_slices),
            -- an A30 and the RTX PRO cards have four slices, every other card that MIG knows seven
            max(case
                when {{ is_found("'(?i)(^|[^a-z0-9])a30([^0-9]|$)|rtx pro [56]000'", 'inventory.gpu_model') }} then 4 else 7
            end)
        ) as card_slices

    from inventory
    inner join slot_names on inventory.cluster = slot_names.cluster and inventory.slot_uuid = slot_names.slot_name
    group by inventory.cluster, inventory.gpu_uuid, inventory.seen_at, slot_names.slot_id

),

slots_sighted as (

    select
        cluster,
        gpu_id,
        seen_at,
        {{ joined_text("concat_ws(':', slot_uuid, cast(compute_slices as varchar))", 'slot_uuid') }} as layout

    from sighted_slots
    group by cluster, gpu_id, seen_at

),

device_sightings as (

    select
        inventory.cluster,
        inventory.gpu_uuid as gpu_id,
        inventory.seen_at,
        max(case when inventory.slot_uuid is null then inventory.memory_total_bytes end) as memory_total_bytes,
        coalesce(max(slots_sighted.layout), '') as layout

    from inventory
    left join slots_sighted
        on
            inventory.cluster = slots_sighted.cluster
            and inventory.gpu_uuid = slots_sighted.gpu_id
            and inventory.seen_at = slots_sighted.seen_at
    group by inventory.cluster, inventory.gpu_uuid, inventory.seen_at

),

layout_changes as (

    select
        cluster,
        gpu_id,
        seen_at,
        memory_total_bytes,
        layout

    from (
        select
            device_sightings.*,
            lag(layout) over (partition by cluster, gpu_id order by seen_at nulls last) as layout_before
        from device_sightings
    ) as followed
    where layout_before is null or layout <> layout_before

),

layouts as (

    select
        cluster,
        gpu_id,
        seen_at,
        memory_total_bytes,
        layout,
        case
            when row_number() over (partition by cluster, gpu_id order by seen_at nulls last) = 1 then timestamp '1970-01-01'
            else seen_at
        end as valid_from_at,
        coalesce(
            lead(seen_at) over (partition by cluster, gpu_id order by seen_at nulls last), timestamp '9999-01-01'
        ) as valid_until_at

    from layout_changes

),

partitioned as (

    select
        layouts.cluster,
        layouts.gpu_id,
        layouts.valid_from_at,
        layouts.valid_until_at,
        sighted_slots.slot_uuid as slot_id,
        sighted_slots.mig_profile,
        sighted_slots.memory_total_bytes,
        sighted_slots.compute_slices,
        sighted_slots.card_slices

    from layouts
    inner join sighted_slots
        on
            layouts.cluster = sighted_slots.cluster
            and layouts.gpu_id = sighted_slots.gpu_id
            and layouts.seen_at = sighted_slots.seen_at
    where layouts.layout <> ''

),

undocumented as (

    select
        named_slots.cluster,
        named_slots.gpu_id,
        timestamp '1970-01-01' as valid_from_at,
        timestamp '9999-01-01' as valid_until_at,
        named_slots.slot_uuid as slot_id,
        cast(null as varchar) as mig_profile,
        cast(null as bigint) as memory_total_bytes,
        cast(1 as bigint) as compute_slices,
        cast(7 as bigint) as card_slices

    from (
        select cluster, gpu_id, slot_uuid from sampled_slots
        union
        select cluster, gpu_uuid as gpu_id, slot_uuid from claims
        where slot_uuid is not null
    ) as named_slots
    left join (select distinct cluster, gpu_id from layouts) as documented
        on named_slots.cluster = documented.cluster and named_slots.gpu_id = documented.gpu_id
    where documented.gpu_id is null

),

mig_slots as (

    select * from partitioned
    union all
    select * from undocumented

),

mig_devices as (

    select
        cluster,
        gpu_id,
        valid_from_at,
        valid_until_at,
        cast(sum(compute_slices) as bigint) as used_slices,
        max(card_slices) as card_slices

    from mig_slots
    group by cluster, gpu_id, valid_from_at, valid_until_at

),

slots as (

    select
        mig_slots.cluster,
        mig_slots.gpu_id,
        mig_slots.slot_id,
        mig_slots.mig_profile,
        mig_slots.memory_total_bytes,
        mig_slots.compute_slices,
        greatest(mig_devices.card_slices, mig_devices.used_slices) as card_slices,
        false as is_stranded,
        mig_slots.valid_from_at,
        mig_slots.valid_until_at

    from mig_slots
    inner join mig_devices
        on
            mig_slots.cluster = mig_devices.cluster
            and mig_slots.gpu_id = mig_devices.gpu_id
            and mig_slots.valid_from_at = mig_devices.valid_from_at

    union all

    select
        cluster,
        gpu_id,
        gpu_id || '/stranded' as slot_id,
        'stranded' as mig_profile,
        cast(null as bigint) as memory_total_bytes,
        card_slices - used_slices as compute_slices,
        card_slices,
        true as is_stranded,
        valid_from_at,
        valid_until_at

    from mig_devices
    where card_slices > used_slices

    union all

    select
        cluster,
        gpu_id,
        gpu_id as slot_id,
        cast(null as varchar) as mig_profile,
        memory_total_bytes,
        cast(1 as bigint) as compute_slices,
        cast(1 as bigint) as card_slices,
        false as is_stranded,
        valid_from_at,
        valid_until_at

    from layouts
    where layout = ''

    union all

    -- a device that no inventory record describes is one whole card
    select
        known.cluster,
        known.gpu_id,
        known.gpu_id as slot_id,
        cast(null as varchar) as mig_profile,
        cast(null as bigint) as memory_total_bytes,
        cast(1 as bigint) as compute_slices,
        cast(1 as bigint) as card_slices,
        false as is_stranded,
        timestamp '1970-01-01' as valid_from_at,
        timestamp '9999-01-01' as valid_until_at

    from (
        select cluster, gpu_id from sightings
        union
        select cluster, gpu_uuid as gpu_id from claims
    ) as known
    left join (
        select cluster, gpu_id from layouts
        union
        select cluster, gpu_id from undocumented
    ) as described
        on known.cluster = described.cluster and known.gpu_id = described.gpu_id
    where described.gpu_id is null

)

select
    slots.*,
    cast(compute_slices as double) / card_slices as slot_fraction

from slots
