-- How sources call MIG instances. One calls an instance by the number of its GPU instance (`GPU-…/gi3`), another by the UUID of
-- a compute instance in it (`MIG-…`, from old drivers `MIG-GPU-…/3/0`): the slot is the GPU instance (semantics 2), its id
-- the number where any source tells it, else the name itself. Where only one unnumbered name and one number of a
-- profile are known on a card, they are the same instance. A compute instance that is a part of its GPU instance
-- (1c.3g.71gb) holds that part of the slot.

with

inventory as (

    select * from {{ ref('int_gpu_inventory_changes') }}
    where slot_uuid is not null

),

run_gpus as (

    select * from {{ ref('stg_landing__run_gpus') }}
    where slot_uuid is not null

),

-- the latest record of a name describes it
sighted as (

    select
        cluster,
        slot_uuid as slot_name,
        max_by(gpu_uuid, seen_at) as gpu_id,
        max_by(lower(mig_profile), seen_at) as mig_profile,
        max(seen_at) as seen_at,
        min(seen_at) as first_seen_at,
        max_by(
            coalesce(
                gpu_instance_id,
                cast({{ captured_text('slot_uuid', "'/gi([0-9]+)$'") }} as bigint),
                cast({{ captured_text('slot_uuid', "'^MIG-GPU-[^/]+/([0-9]+)/[0-9]+$'") }} as bigint)
            ),
            seen_at
        ) as gpu_instance_id

    from inventory
    group by cluster, slot_uuid

),

-- names that only holders use tell their card and number themselves, or nothing
told as (

    select
        run_gpus.cluster,
        run_gpus.slot_uuid as slot_name,
        max(coalesce(
            run_gpus.gpu_uuid,
            {{ captured_text('run_gpus.slot_uuid', "'^MIG-(GPU-[^/]+)/[0-9]+/[0-9]+$'") }},
            {{ captured_text('run_gpus.slot_uuid', "'^(.+)/gi[0-9]+$'") }}
        )) as gpu_id,
        cast(null as varchar) as mig_profile,
        max(run_gpus.started_at) as seen_at,
        min(run_gpus.started_at) as first_seen_at,
        max(coalesce(
            cast({{ captured_text('run_gpus.slot_uuid', "'/gi([0-9]+)$'") }} as bigint),
            cast({{ captured_text('run_gpus.slot_uuid', "'^MIG-GPU-[^/]+/([0-9]+)/[0-9]+$'") }} as bigint)
        )) as gpu_instance_id

    from run_gpus
    left join sighted on run_gpus.cluster = sighted.cluster and run_gpus.slot_uuid = sighted.slot_name
    where sighted.slot_name is null
    group by run_gpus.cluster, run_gpus.slot_uuid

),

names as (

    select *, true as is_sighted from sighted
    union all
    select *, false as is_sighted from told
    where gpu_id is not null

),

parsed as (

    select
        names.*,
        {{ mig_profile_name('mig_profile') }} as instance_profile,
        coalesce(cast({{ captured_text('mig_profile', "'([0-9]+)c[.][0-9]+g'") }} as double), 0.0) as part_slices,
        cast({{ captured_text('mig_profile', "'([0-9]+)g[.]'") }} as double) as instance_slices

    from names

),

-- the one number of a profile on a card, for the one name that has none
single_numbers as (

    select
        cluster,
        gpu_id,
        instance_profile,
        max(gpu_instance_id) as gpu_instance_id

    from parsed
    where instance_profile is not null
    group by cluster, gpu_id, instance_profile
    having
        count(distinct gpu_instance_id) = 1
        and count(distinct case when gpu_instance_id is null then slot_name end) = 1
        and max(part_slices) = 0.0

),

-- parts of a profile without numbers fill one instance after the other
parts_counted as (

    select
        parsed.*,
        coalesce(parsed.gpu_instance_id, single_numbers.gpu_instance_id) as instance_number,
        floor(
            coalesce(
                sum(parsed.part_slices) over (
                    partition by parsed.cluster, parsed.gpu_id, parsed.instance_profile, parsed.gpu_instance_id
                    order by parsed.slot_name nulls last
                    rows between unbounded preceding and 1 preceding
                ),
                0.0
            ) / nullif(parsed.instance_slices, 0.0)
        ) as part_group

    from parsed
    left join single_numbers
        on
            parsed.cluster = single_numbers.cluster
            and parsed.gpu_id = single_numbers.gpu_id
            and parsed.instance_profile = single_numbers.instance_profile

),

named as (

    select
        cluster,
        slot_name,
        gpu_id,
        case
            when instance_number is not null then gpu_id || '/gi' || cast(instance_number as varchar)
            when part_slices > 0.0
                then min(slot_name) over (
                    partition by cluster, gpu_id, instance_profile, instance_number, part_slices > 0.0, part_group
                )
            else slot_name
        end as slot_id,
        case
            when part_slices > 0.0 and part_slices < instance_slices then part_slices / instance_slices
            else 1.0
        end as instance_part,
        is_sighted,
        first_seen_at,
        seen_at as last_seen_at

    from parts_counted

)

select * from named
