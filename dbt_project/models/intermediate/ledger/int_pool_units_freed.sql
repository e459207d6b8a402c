-- What each pool has to hand out and when: the node's devices in service, or its slots of the MIG profile, each with the
-- part of it that nobody holds exactly. A partitioned device stands in the pool of devices too, behind the whole ones:
-- last where its slots are claimed by their profile.

with

claims as (

    select * from {{ ref('int_pool_claims_placed') }}

),

states as (

    select * from {{ ref('int_gpu_state_spans') }}
    where state not in ('down', 'maintenance', 'lost')

),

layouts as (

    select
        layouts.*,
        coalesce(profile_names.mig_profile, layouts.mig_profile) as pool

    from {{ ref('int_gpu_layouts') }} as layouts
    left join {{ ref('int_mig_profiles_named') }} as profile_names on lower(layouts.mig_profile) = profile_names.written_as
    where not layouts.is_stranded

),

exact as (

    select * from {{ ref('int_holds_exact') }}

),

pool_hours as (

    select distinct cluster, node, pool, hour_start_at
    from claims

),

-- one row per device and layout: how it stands in the pool of devices
device_layouts as (

    select
        cluster,
        gpu_id,
        valid_from_at,
        valid_until_at,
        bool_or(slot_id <> gpu_id) as is_partitioned

    from layouts
    group by cluster, gpu_id, valid_from_at, valid_until_at

),

profiles_on_devices as (

    select distinct
        pool_hours.cluster,
        pool_hours.node,
        pool_hours.hour_start_at,
        layouts.gpu_id,
        layouts.valid_from_at

    from pool_hours
    inner join layouts on pool_hours.cluster = layouts.cluster and pool_hours.pool = layouts.pool

),

-- the time that a unit may be given to the pool, whatever else changes on its node meanwhile
pieces as (

    select
        pool_hours.cluster,
        pool_hours.node,
        pool_hours.pool,
        pool_hours.hour_start_at,
        states.gpu_id,
        cast(null as varchar) as slot_id,
        case
            when not coalesce(device_layouts.is_partitioned, false) then 0
            when profiles_on_devices.gpu_id is null then 1
            else 2
        end as unit_order,
        greatest(
            states.started_at, pool_hours.hour_start_at, coalesce(device_layouts.valid_from_at, states.started_at)
        ) as started_at,
        least(
            states.ended_at,
            pool_hours.hour_start_at + interval 1 hour,
            coalesce(device_layouts.valid_until_at, states.ended_at)
        ) as ended_at

    from pool_hours
    inner join states
        on
            pool_hours.cluster = states.cluster
            and pool_hours.node = states.node
            and cast(pool_hours.hour_start_at as date) = states.usage_date
            and states.started_at < pool_hours.hour_start_at + interval 1 hour
            and states.ended_at > pool_hours.hour_start_at
    left join device_layouts
        on
            states.cluster = device_layouts.cluster
            and states.gpu_id = device_layouts.gpu_id
            and states.started_at < device_layouts.valid_until_at
            and states.ended_at > device_layouts.valid_from_at
    left join profiles_on_devices
        on
            pool_hours.cluster = profiles_on_devices.cluster
            and pool_hours.node = profiles_on_devices.node
            and pool_hours.hour_start_at = profiles_on_devices.hour_start_at
            and states.gpu_id = profiles_on_devices.gpu_id
            and device_layouts.valid_from_at = profiles_on_devices.valid_from_at
    where pool_hours.pool = 'gpu'

    union all

    select
        pool_hours.cluster,
        pool_hours.node,
        pool_hours.pool,
        pool_hours.hour_start_at,
        states.gpu_id,
        layouts.slot_id,
        0 as unit_order,
        greatest(states.started_at, pool_hours.hour_start_at, layouts.valid_from_at) as started_at,
        least(states.ended_at, pool_hours.hour_start_at + interval 1 hour, layouts.valid_until_at) as ended_at

    from pool_hours
    inner join states
        on
            pool_hours.cluster = states.cluster
            and pool_hours.node = states.node
            and cast(pool_hours.hour_start_at as date) = states.usage_date
            and states.started_at < pool_hours.hour_start_at + interval 1 hour
            and states.ended_at > pool_hours.hour_start_at
    inner join layouts
        on
            states.cluster = layouts.cluster
            and states.gpu_id = layouts.gpu_id
            and pool_hours.pool = layouts.pool
            and states.started_at < layouts.valid_until_at
            and states.ended_at > layouts.valid_from_at

),

marked as (

    select
        pieces.*,
        case
            when
                started_at <= lag(ended_at) over (
                    partition by cluster, node, pool, hour_start_at, gpu_id, slot_id, unit_order
                    order by started_at nulls last
                )
                then 0
            else 1
        end as begins

    from pieces
    where started_at < ended_at

),

available as (

    select
        cluster,
        node,
        pool,
        hour_start_at,
        gpu_id,
        slot_id,
        unit_order,
        min(started_at) as started_at,
        max(ended_at) as ended_at

    from (
        select
            marked.*,
            sum(begins) over (
                partition by cluster, node, pool, hour_start_at, gpu_id, slot_id, unit_order
                order by started_at nulls last
                rows between unbounded preceding and current row
            ) as piece_number
        from marked
    ) as numbered
    group by cluster, node, pool, hour_start_at, gpu_id, slot_id, unit_order, piece_number

),

-- who holds one slot of a partitioned device exactly takes the device out of the pool of devices
taken as (

    select
        available.cluster,
        available.node,
        available.pool,
        available.hour_start_at,
        available.gpu_id,
        available.slot_id,
        available.started_at as available_from_at,
        greatest(exact.started_at, available.started_at) as started_at,
        least(exact.ended_at, available.ended_at) as ended_at,
        case when available.unit_order > 0 then 1.0 else coalesce(exact.share_ratio, 1.0) end as share

    from available
    inner join exact
        on
            available.cluster = exact.cluster
            and available.gpu_id = exact.gpu_id
            and (available.slot_id is null or available.slot_id = exact.slot_id)
            and exact.started_at < available.ended_at
            and exact.ended_at > available.started_at

),

cuts as (

    select cluster, node, pool, hour_start_at, gpu_id, slot_id, started_at as available_from_at, started_at as cut_at
    from available
    union
    select cluster, node, pool, hour_start_at, gpu_id, slot_id, available_from_at, started_at
    from taken
    union
    select cluster, node, pool, hour_start_at, gpu_id, slot_id, available_from_at, ended_at
    from taken

),

stretches as (

    select
        available.cluster,
        available.node,
        available.pool,
        available.hour_start_at,
        available.gpu_id,
        available.slot_id,
        available.unit_order,
        available.started_at as available_from_at,
        cuts.cut_at as started_at,
        coalesce(
            lead(cuts.cut_at) over (
                partition by
                    available.cluster, available.node, available.pool, available.hour_start_at, available.gpu_id,
                    available.slot_id, available.started_at
                order by cuts.cut_at nulls last
            ),
            available.ended_at
        ) as ended_at

    from available
    inner join cuts
        on
            available.cluster = cuts.cluster
            and available.node = cuts.node
            and available.pool = cuts.pool
            and available.hour_start_at = cuts.hour_start_at
            and available.gpu_id = cuts.gpu_id
            and available.slot_id is not distinct from cuts.slot_id
            and available.started_at = cuts.available_from_at

),

freed as (

    select
        stretches.cluster,
        stretches.node,
        stretches.pool,
        stretches.hour_start_at,
        stretches.gpu_id,
        stretches.slot_id,
        stretches.unit_order,
        stretches.started_at,
        stretches.ended_at,
        1.0 - coalesce(sum(taken.share), 0.0) as free_share

    from stretches
    left join taken
        on
            stretches.cluster = taken.cluster
            and stretches.node = taken.node
            and stretches.pool = taken.pool
            and stretches.hour_start_at = taken.hour_start_at
            and stretches.gpu_id = taken.gpu_id
            and stretches.slot_id is not distinct from taken.slot_id
            and stretches.available_from_at = taken.available_from_at
            and taken.started_at <= stretches.started_at
            and taken.ended_at >= stretches.ended_at
    where stretches.started_at < stretches.ended_at
    group by
        stretches.cluster, stretches.node, stretches.pool, stretches.hour_start_at, stretches.gpu_id, stretches.slot_id,
        stretches.unit_order, stretches.started_at, stretches.ended_at

)

select * from freed
where free_share > 1e-9
