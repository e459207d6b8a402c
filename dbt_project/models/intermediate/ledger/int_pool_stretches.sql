-- Node pools: stretches, within an hour, in which neither what a pool has to hand out nor its holders change, and its
-- units (devices, or slots of a MIG profile) in the order in which they are given (semantics 3). A unit on which processes
-- of one holder were seen within the hour is that holder's, as far as it asks; the rest is given to all in proportion.

{% set overlap_us = microseconds_between(
    'greatest(minutes.bucket_start_at, candidates.started_at)',
    'least(minutes.bucket_end_at, candidates.ended_at)'
) %}

{{ config(database='scratch') }}

with

claims as (

    select * from {{ ref('int_pool_claims_placed') }}

),

units as (

    select * from {{ ref('int_pool_units_freed') }}

),

states as (

    select * from {{ ref('int_gpu_state_spans') }}

),

processes as (

    select
        seen.cluster,
        seen.gpu_uuid,
        coalesce(slot_names.slot_id, seen.slot_uuid) as slot_uuid,
        seen.seen_at,
        coalesce(seen.job_id, seen.pod_uid) as job_id

    from {{ ref('stg_landing__gpu_processes') }} as seen
    left join {{ ref('int_slot_names') }} as slot_names
        on seen.cluster = slot_names.cluster and seen.slot_uuid = slot_names.slot_name

),

runs as (

    select * from {{ ref('int_runs') }}

),

minutes as (

    select * from {{ ref('int_gpu_minutes') }}

),

slots as (

    select * from {{ ref('int_slots_numbered') }}

),

cuts as (

    select cluster, node, pool, hour_start_at, started_at as cut_at from claims
    union
    select cluster, node, pool, hour_start_at, ended_at from claims
    union
    select cluster, node, pool, hour_start_at, started_at from units
    union
    select cluster, node, pool, hour_start_at, ended_at from units

),

between_cuts as (

    select *
    from (
        select
            cluster,
            node,
            pool,
            hour_start_at,
            cut_at as started_at,
            lead(cut_at) over (partition by cluster, node, pool, hour_start_at order by cut_at nulls last) as ended_at
        from cuts
    ) as cut_pairs
    where ended_at is not null

),

holders as (

    select
        between_cuts.cluster,
        between_cuts.node,
        between_cuts.pool,
        between_cuts.hour_start_at,
        between_cuts.started_at,
        claims.run_id,
        sum(claims.unit_count) as unit_count,
        bool_or(claims.is_shared) as is_shared

    from between_cuts
    inner join claims
        on
            between_cuts.cluster = claims.cluster
            and between_cuts.node = claims.node
            and between_cuts.pool = claims.pool
            and between_cuts.hour_start_at = claims.hour_start_at
            and claims.started_at <= between_cuts.started_at
            and claims.ended_at >= between_cuts.ended_at
    group by
        between_cuts.cluster, between_cuts.node, between_cuts.pool, between_cuts.hour_start_at, between_cuts.started_at,
        claims.run_id

),

claimed as (

    select
        cluster,
        node,
        pool,
        hour_start_at,
        started_at,
        sum(unit_count) as claimed_count,
        bool_or(is_shared) as is_shared,
        bool_and(is_shared) as is_shared_only,
        {{ joined_text("concat_ws(':', run_id, cast(unit_count as varchar))", 'run_id') }} as holders

    from holders
    group by cluster, node, pool, hour_start_at, started_at

),

-- a unit of which others hold a share serves those who ask for shares, and nobody else
on_offer as (

    select
        between_cuts.cluster,
        between_cuts.node,
        between_cuts.pool,
        between_cuts.hour_start_at,
        between_cuts.started_at,
        units.gpu_id,
        units.slot_id,
        units.unit_order,
        units.free_share

    from between_cuts
    inner join claimed
        on
            between_cuts.cluster = claimed.cluster
            and between_cuts.node = claimed.node
            and between_cuts.pool = claimed.pool
            and between_cuts.hour_start_at = claimed.hour_start_at
            and between_cuts.started_at = claimed.started_at
    inner join units
        on
            between_cuts.cluster = units.cluster
            and between_cuts.node = units.node
            and between_cuts.pool = units.pool
            and between_cuts.hour_start_at = units.hour_start_at
            and units.started_at <= between_cuts.started_at
            and units.ended_at >= between_cuts.ended_at
    where units.free_share > 1.0 - 1e-9 or claimed.is_shared

),

offered as (

    select
        cluster,
        node,
        pool,
        hour_start_at,
        started_at,
        {{ joined_text(
            "concat_ws(':', gpu_id, slot_id, cast(unit_order as varchar), cast(free_share as varchar))", 'gpu_id, slot_id'
        ) }} as units

    from on_offer
    group by cluster, node, pool, hour_start_at, started_at

),

-- a change that leaves the pool's units and holders as they were (one exact holder after another) is none
marked as (

    select
        between_cuts.*,
        claimed.claimed_count,
        claimed.is_shared,
        claimed.is_shared_only,
        case
            when
                lag(concat_ws('|', offered.units, claimed.holders)) over (
                    partition by between_cuts.cluster, between_cuts.node, between_cuts.pool, between_cuts.hour_start_at
                    order by between_cuts.started_at nulls last
                ) = concat_ws('|', offered.units, claimed.holders)
                then 0
            else 1
        end as begins

    from between_cuts
    left join claimed
        on
            between_cuts.cluster = claimed.cluster
            and between_cuts.node = claimed.node
            and between_cuts.pool = claimed.pool
            and between_cuts.hour_start_at = claimed.hour_start_at
            and between_cuts.started_at = claimed.started_at
    left join offered
        on
            between_cuts.cluster = offered.cluster
            and between_cuts.node = offered.node
            and between_cuts.pool = offered.pool
            and between_cuts.hour_start_at = offered.hour_start_at
            and between_cuts.started_at = offered.started_at

),

-- the units and holders of a stretch are those of its first part
stretches as (

    select
        cluster,
        node,
        pool,
        hour_start_at,
        min(started_at) as started_at,
        max(ended_at) as ended_at,
        max(claimed_count) as claimed_count,
        bool_or(is_shared) as is_shared,
        bool_or(is_shared_only) as is_shared_only

    from (
        select
            marked.*,
            sum(begins) over (
                partition by cluster, node, pool, hour_start_at
                order by started_at nulls last
                rows between unbounded preceding and current row
            ) as stretch_number
        from marked
    ) as numbered
    where claimed_count is not null
    group by cluster, node, pool, hour_start_at, stretch_number

),

candidates as (

    select
        stretches.cluster,
        stretches.node,
        stretches.pool,
        stretches.hour_start_at,
        stretches.started_at,
        stretches.ended_at,
        stretches.is_shared_only,
        on_offer.gpu_id,
        on_offer.slot_id,
        on_offer.unit_order,
        on_offer.free_share

    from stretches
    inner join on_offer
        on
            stretches.cluster = on_offer.cluster
            and stretches.node = on_offer.node
            and stretches.pool = on_offer.pool
            and stretches.hour_start_at = on_offer.hour_start_at
            and stretches.started_at = on_offer.started_at

),

process_sightings as (

    select
        candidates.cluster,
        candidates.node,
        candidates.pool,
        candidates.hour_start_at,
        candidates.started_at,
        candidates.gpu_id,
        candidates.slot_id,
        candidates.free_share,
        processes.job_id,
        min(processes.seen_at) as first_seen_at,
        max(processes.seen_at) as last_seen_at,
        bool_or(
            processes.seen_at >= candidates.started_at and processes.seen_at < candidates.ended_at
        ) as is_in_stretch

    from candidates
    inner join processes
        on
            candidates.cluster = processes.cluster
            and candidates.gpu_id = processes.gpu_uuid
            and (candidates.slot_id is null or coalesce(processes.slot_uuid, candidates.slot_id) = candidates.slot_id)
            and processes.seen_at >= candidates.hour_start_at
            and processes.seen_at < candidates.hour_start_at + interval 1 hour
    group by
        candidates.cluster, candidates.node, candidates.pool, candidates.hour_start_at, candidates.started_at,
        candidates.gpu_id, candidates.slot_id, candidates.free_share, processes.job_id

),

-- whose processes were seen on which unit, and on how many
seen_on as (

    select
        process_sightings.*,
        holders.run_id,
        holders.unit_count,
        holders.is_shared,
        count(*) over (
            partition by holders.cluster, holders.node, holders.pool, holders.started_at, holders.run_id
        ) as seen_count,
        count(*) over (
            partition by
                holders.cluster, holders.node, holders.pool, holders.started_at, process_sightings.gpu_id,
                process_sightings.slot_id
        ) as run_count,
        bool_and(holders.is_shared) over (
            partition by
                holders.cluster, holders.node, holders.pool, holders.started_at, process_sightings.gpu_id,
                process_sightings.slot_id
        ) as is_shared_only

    from process_sightings
    inner join holders
        on
            process_sightings.cluster = holders.cluster
            and process_sightings.node = holders.node
            and process_sightings.pool = holders.pool
            and process_sightings.hour_start_at = holders.hour_start_at
            and process_sightings.started_at = holders.started_at
    inner join runs
        on
            holders.run_id = runs.run_id
            and process_sightings.job_id = runs.job_id
            and process_sightings.last_seen_at >= runs.held_from_at
            and process_sightings.first_seen_at < runs.held_until_at

),

-- processes are evidence of a run on no more units than it asks for; those of several runs on one unit only where they
-- ask for shares that fit, else they contradict each other
named as (

    select *
    from (
        select
            seen_on.*,
            least(1.0, unit_count / seen_count) as part,
            sum(least(1.0, unit_count / seen_count)) over (
                partition by cluster, node, pool, started_at, gpu_id, slot_id
            ) as unit_part
        from seen_on
    ) as summed
    where
        unit_part <= free_share + 1e-9
        and (is_shared_only or (run_count = 1 and not is_shared and seen_count <= unit_count + 1e-9))

),

named_of_units as (

    select
        cluster,
        node,
        pool,
        started_at,
        gpu_id,
        slot_id,
        sum(part) as named_share

    from named
    group by cluster, node, pool, started_at, gpu_id, slot_id

),

holders_left as (

    select
        holders.cluster,
        holders.node,
        holders.pool,
        holders.hour_start_at,
        holders.started_at,
        holders.run_id,
        holders.unit_count - coalesce(sum(named.part), 0.0) as unit_count

    from holders
    left join named
        on
            holders.cluster = named.cluster
            and holders.node = named.node
            and holders.pool = named.pool
            and holders.started_at = named.started_at
            and holders.run_id = named.run_id
    group by
        holders.cluster, holders.node, holders.pool, holders.hour_start_at, holders.started_at, holders.run_id,
        holders.unit_count

),

claimed_left as (

    select
        cluster,
        node,
        pool,
        started_at,
        sum(unit_count) as claimed_count

    from holders_left
    where unit_count > 1e-9
    group by cluster, node, pool, started_at

),

candidates_left as (

    select
        candidates.* exclude (free_share),
        candidates.free_share - coalesce(named_of_units.named_share, 0.0) as free_share

    from candidates
    left join named_of_units
        on
            candidates.cluster = named_of_units.cluster
            and candidates.node = named_of_units.node
            and candidates.pool = named_of_units.pool
            and candidates.started_at = named_of_units.started_at
            and candidates.gpu_id = named_of_units.gpu_id
            and candidates.slot_id is not distinct from named_of_units.slot_id

),

-- where all that is offered is claimed, no unit is preferred to another, and what they did does not matter
contested as (

    select
        candidates_left.cluster,
        candidates_left.node,
        candidates_left.pool,
        candidates_left.started_at

    from candidates_left
    inner join claimed_left
        on
            candidates_left.cluster = claimed_left.cluster
            and candidates_left.node = claimed_left.node
            and candidates_left.pool = claimed_left.pool
            and candidates_left.started_at = claimed_left.started_at
    group by candidates_left.cluster, candidates_left.node, candidates_left.pool, candidates_left.started_at
    having max(claimed_left.claimed_count) < sum(candidates_left.free_share) - 1e-9

),

slots_contested as (

    select
        candidates_left.cluster,
        candidates_left.pool,
        candidates_left.gpu_id,
        candidates_left.slot_id,
        candidates_left.hour_start_at,
        candidates_left.started_at,
        candidates_left.ended_at,
        slots.slot_number

    from candidates_left
    inner join contested
        on
            candidates_left.cluster = contested.cluster
            and candidates_left.node = contested.node
            and candidates_left.pool = contested.pool
            and candidates_left.started_at = contested.started_at
    inner join slots
        on
            candidates_left.cluster = slots.cluster
            and candidates_left.gpu_id = slots.gpu_id
            and (candidates_left.slot_id is null or candidates_left.slot_id = slots.slot_id)

),

activity as (

    select
        candidates.cluster,
        candidates.pool,
        candidates.gpu_id,
        candidates.slot_id,
        candidates.started_at,
        sum(minutes.activity_us * minutes.slot_fraction * {{ overlap_us }})
            / nullif(sum(minutes.covered_us * minutes.slot_fraction * {{ overlap_us }}), 0) as activity,
        -- a device uses what its slots use together
        sum(minutes.memory_bytes * minutes.covered_us * {{ overlap_us }})
            / nullif(sum(minutes.covered_us * minutes.slot_fraction * {{ overlap_us }}), 0)
            * case when candidates.slot_id is null then 1.0 else max(minutes.slot_fraction) end as memory_bytes

    from slots_contested as candidates
    inner join minutes
        on
            candidates.slot_number = minutes.slot_number
            and candidates.hour_start_at = date_trunc('hour', minutes.minute_start_at)
            and minutes.bucket_start_at < candidates.ended_at
            and minutes.bucket_end_at > candidates.started_at
    group by candidates.cluster, candidates.pool, candidates.gpu_id, candidates.slot_id, candidates.started_at

),

with_processes as (

    select distinct
        cluster,
        pool,
        gpu_id,
        slot_id,
        started_at

    from process_sightings
    where is_in_stretch

),

shown as (

    select
        candidates_left.*,
        activity.activity,
        activity.memory_bytes,
        case
            when with_processes.gpu_id is not null then 1
            when
                activity.activity >= {{ var('idle_activity_ratio') }}
                or activity.memory_bytes >= {{ var('reserved_memory_bytes') }}
                then 2
            when activity.activity is null then 3
            else 4
        end as evidence

    from candidates_left
    left join activity
        on
            candidates_left.cluster = activity.cluster
            and candidates_left.pool = activity.pool
            and candidates_left.gpu_id = activity.gpu_id
            and candidates_left.slot_id is not distinct from activity.slot_id
            and candidates_left.started_at = activity.started_at
    left join with_processes
        on
            candidates_left.cluster = with_processes.cluster
            and candidates_left.pool = with_processes.pool
            and candidates_left.gpu_id = with_processes.gpu_id
            and candidates_left.slot_id is not distinct from with_processes.slot_id
            and candidates_left.started_at = with_processes.started_at
    where candidates_left.free_share > 1e-9

),

-- shares go where there are shares already, whole devices are whole ones first
ranked as (

    select
        shown.*,
        row_number() over (
            partition by cluster, node, pool, started_at
            order by
                case when (free_share > 1.0 - 1e-9) = is_shared_only then 1 else 0 end nulls last,
                unit_order nulls last,
                evidence nulls last,
                case when evidence <= 2 then activity end desc nulls last,
                case when evidence <= 2 then memory_bytes end desc nulls last,
                gpu_id nulls last,
                slot_id nulls last
        ) as unit_rank

    from shown

),

-- a node with no known device has as many implied ones as are held (semantics 3)
implied as (

    select
        numbered.cluster,
        numbered.node,
        numbered.pool,
        numbered.hour_start_at,
        numbered.started_at,
        numbered.ended_at,
        numbered.cluster || '/' || numbered.node || '#' || cast(numbered.device_number as varchar) as gpu_id,
        cast(null as varchar) as slot_id,
        1.0 as free_share,
        cast(numbered.device_number as bigint) as unit_rank,
        true as is_implied

    from (
        select
            stretches.*,
            {{ each_number('cast(ceil(stretches.claimed_count - 1e-9) as bigint)') }} as device_number
        from stretches
        where pool = 'gpu'
    ) as numbered
    left join states
        on
            numbered.cluster = states.cluster
            and numbered.node = states.node
            and cast(numbered.hour_start_at as date) = states.usage_date
            and states.started_at < numbered.ended_at
            and states.ended_at > numbered.started_at
    where states.gpu_id is null

),

handed_out as (

    select
        cluster,
        node,
        pool,
        hour_start_at,
        started_at,
        ended_at,
        gpu_id,
        slot_id,
        free_share,
        unit_rank,
        false as is_implied

    from ranked

    union all

    select
        cluster,
        node,
        pool,
        hour_start_at,
        started_at,
        ended_at,
        gpu_id,
        slot_id,
        free_share,
        unit_rank,
        is_implied

    from implied

),

filled as (

    select
        handed_out.*,
        sum(free_share) over (partition by cluster, node, pool, started_at) as offered_count,
        coalesce(
            sum(free_share) over (
                partition by cluster, node, pool, started_at
                order by unit_rank nulls last
                rows between unbounded preceding and 1 preceding
            ),
            0.0
        ) as given_before_count

    from handed_out

),

given as (

    select
        filled.cluster,
        filled.node,
        filled.pool,
        filled.hour_start_at,
        filled.started_at,
        filled.ended_at,
        filled.gpu_id,
        filled.slot_id,
        filled.is_implied,
        stretches.is_shared,
        holders_left.run_id,
        claimed_left.claimed_count > filled.offered_count + 1e-9 as is_over_allocated,
        -- the unit's part that is held, times the holder's part of what all hold
        holders_left.unit_count / claimed_left.claimed_count
        * greatest(0.0, least(filled.free_share, claimed_left.claimed_count - filled.given_before_count)) as share,
        'node_pool' as assignment_method

    from filled
    inner join stretches
        on
            filled.cluster = stretches.cluster
            and filled.node = stretches.node
            and filled.pool = stretches.pool
            and filled.started_at = stretches.started_at
    inner join claimed_left
        on
            filled.cluster = claimed_left.cluster
            and filled.node = claimed_left.node
            and filled.pool = claimed_left.pool
            and filled.started_at = claimed_left.started_at
    inner join holders_left
        on
            filled.cluster = holders_left.cluster
            and filled.node = holders_left.node
            and filled.pool = holders_left.pool
            and filled.started_at = holders_left.started_at
            and holders_left.unit_count > 1e-9

    union all

    select
        named.cluster,
        named.node,
        named.pool,
        named.hour_start_at,
        named.started_at,
        stretches.ended_at,
        named.gpu_id,
        named.slot_id,
        false as is_implied,
        named.is_shared,
        named.run_id,
        false as is_over_allocated,
        named.part as share,
        'process' as assignment_method

    from named
    inner join stretches
        on
            named.cluster = stretches.cluster
            and named.node = stretches.node
            and named.pool = stretches.pool
            and named.started_at = stretches.started_at

)

select * from given
where share > 1e-12
