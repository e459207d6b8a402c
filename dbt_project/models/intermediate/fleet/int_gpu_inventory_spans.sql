-- When a device was in inventory, and on which node (semantics 2). Sightings are the direct ones; being held by a run
-- on that very device; and the whole of an interval in which the node's pool was held, or the node was down, drained or
-- in maintenance, for the devices that were directly seen on the node no more than inventory_carry_hours (24) before it
-- began. (A device first seen within inventory_absent_minutes after a run began was there when it began.) A hole of up
-- to 15 minutes belongs to the inventory; a longer one, up to 24 h, only if no other device of the cluster was seen
-- strictly inside it.

with

direct as (

    select * from {{ ref('int_gpu_sightings') }}

),

-- a run that the scheduler never closed ends on all its devices
runaways as (

    select
        run_id,
        max(ended_at) as ended_at

    from {{ ref('int_holds_exact') }}
    where flag = 'runaway'
    group by run_id

),

claims as (

    select
        claims.cluster,
        claims.node,
        claims.gpu_uuid,
        claims.started_at,
        least(claims.ended_at, coalesce(runaways.ended_at, claims.ended_at)) as ended_at,
        claims.is_name_only

    from {{ ref('int_holds_claimed') }} as claims
    left join runaways on claims.run_id = runaways.run_id

),

displaced as (

    select * from {{ ref('int_gpus_displaced') }}

),

node_states as (

    select * from {{ ref('int_node_states_resolved') }}
    where state in ('down', 'drained', 'maintenance')

),

firsthand as (

    select cluster, node, gpu_id, seen_from_at, seen_until_at
    from direct

    union all

    select cluster, node, gpu_uuid as gpu_id, started_at as seen_from_at, ended_at as seen_until_at
    from claims
    -- a label says no more than the sample that bears it
    where gpu_uuid is not null and not is_name_only and started_at < ended_at

),

node_intervals as (

    select distinct cluster, node, started_at, ended_at, {{ var('inventory_absent_minutes') }} as grace_minutes
    from claims
    where gpu_uuid is null and started_at < ended_at

    union all

    select cluster, node, started_at, ended_at, 0 as grace_minutes
    from node_states

),

carried_to_the_end as (

    select distinct
        node_intervals.cluster,
        node_intervals.node,
        direct.gpu_id,
        node_intervals.started_at,
        node_intervals.ended_at

    from node_intervals
    inner join direct
        on
            node_intervals.cluster = direct.cluster
            and node_intervals.node = direct.node
            and direct.seen_until_at >= node_intervals.started_at - interval {{ var('inventory_carry_hours') }} hour
            and direct.seen_from_at <= {{ plus_microseconds('node_intervals.started_at', 'node_intervals.grace_minutes * 60000000') }}

),

-- a device seen on another node meanwhile, or in whose place another one sits, is no longer on this one
carried as (

    select
        carried_to_the_end.cluster,
        carried_to_the_end.node,
        carried_to_the_end.gpu_id,
        carried_to_the_end.started_at as seen_from_at,
        least(
            carried_to_the_end.ended_at,
            coalesce(min(elsewhere.seen_from_at), carried_to_the_end.ended_at),
            coalesce(max(displaced.displaced_at), carried_to_the_end.ended_at)
        ) as seen_until_at

    from carried_to_the_end
    left join direct as elsewhere
        on
            carried_to_the_end.cluster = elsewhere.cluster
            and carried_to_the_end.gpu_id = elsewhere.gpu_id
            and carried_to_the_end.node <> elsewhere.node
            and elsewhere.seen_from_at > carried_to_the_end.started_at
            and elsewhere.seen_from_at < carried_to_the_end.ended_at
    left join displaced
        on carried_to_the_end.cluster = displaced.cluster and carried_to_the_end.gpu_id = displaced.gpu_id
    group by
        carried_to_the_end.cluster, carried_to_the_end.node, carried_to_the_end.gpu_id, carried_to_the_end.started_at,
        carried_to_the_end.ended_at

),

sightings as (

    select * from firsthand

    union all

    select * from carried
    where seen_from_at < seen_until_at

),

reached as (

    select
        sightings.*,
        max(seen_until_at) over (
            partition by cluster, gpu_id
            order by seen_from_at nulls last, seen_until_at nulls last
            rows between unbounded preceding and 1 preceding
        ) as reached_at,
        row_number() over (
            partition by cluster, gpu_id order by seen_from_at nulls last, seen_until_at nulls last, node nulls last
        ) as sighting_number

    from sightings

),

holes as (

    select
        cluster,
        gpu_id,
        sighting_number,
        reached_at as hole_from_at,
        seen_from_at as hole_until_at

    from reached
    where
        seen_from_at > reached_at + interval {{ var('inventory_absent_minutes') }} minute
        and seen_from_at <= reached_at + interval {{ var('inventory_carry_hours') }} hour

),

-- others were seen while this one was not: it was gone
real_holes as (

    select distinct
        holes.cluster,
        holes.gpu_id,
        holes.sighting_number

    from holes
    inner join direct
        on
            holes.cluster = direct.cluster
            and holes.gpu_id <> direct.gpu_id
            and direct.seen_from_at < holes.hole_until_at
            and direct.seen_until_at > holes.hole_from_at
            and (
                -- its first sighting lies inside, or its last one, or it was there all along
                (direct.seen_from_at > holes.hole_from_at and direct.first_seen_until_at < holes.hole_until_at)
                or (direct.last_seen_from_at > holes.hole_from_at and direct.seen_until_at < holes.hole_until_at)
                or (direct.seen_from_at <= holes.hole_from_at and direct.seen_until_at >= holes.hole_until_at)
            )

),

marked as (

    select
        reached.*,
        case
            when reached.reached_at is null then 1
            when reached.seen_from_at > reached.reached_at + interval {{ var('inventory_carry_hours') }} hour then 1
            when real_holes.sighting_number is not null then 1
            else 0
        end as begins

    from reached
    left join real_holes
        on
            reached.cluster = real_holes.cluster
            and reached.gpu_id = real_holes.gpu_id
            and reached.sighting_number = real_holes.sighting_number

),

numbered as (

    select
        marked.*,
        sum(begins) over (
            partition by cluster, gpu_id order by sighting_number nulls last rows between unbounded preceding and current row
        ) as stay_number

    from marked

),

-- within a stay the device is where it was last seen; a move ends one span and begins the next
places as (

    select
        cluster,
        gpu_id,
        stay_number,
        node,
        sighting_number,
        seen_from_at,
        seen_until_at,
        case
            when lag(node) over (partition by cluster, gpu_id, stay_number order by sighting_number nulls last) = node then 0
            else 1
        end as moves

    from numbered

),

place_numbered as (

    select
        places.*,
        sum(moves) over (
            partition by cluster, gpu_id, stay_number order by sighting_number nulls last
            rows between unbounded preceding and current row
        ) as place_number

    from places

),

stays as (

    select
        cluster,
        gpu_id,
        stay_number,
        place_number,
        min(node) as node,
        min(seen_from_at) as seen_from_at,
        max(seen_until_at) as seen_until_at

    from place_numbered
    group by cluster, gpu_id, stay_number, place_number

),

spans as (

    select
        cluster,
        gpu_id,
        node,
        greatest(
            seen_from_at,
            coalesce(
                max(seen_until_at) over (
                    partition by cluster, gpu_id, stay_number order by place_number nulls last
                    rows between unbounded preceding and 1 preceding
                ),
                seen_from_at
            )
        ) as started_at,
        coalesce(
            lead(seen_from_at) over (partition by cluster, gpu_id, stay_number order by place_number nulls last),
            seen_until_at
        ) as ended_at

    from stays

)

select * from spans
where started_at < ended_at
