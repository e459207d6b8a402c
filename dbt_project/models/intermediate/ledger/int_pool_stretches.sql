-- Node pools: stretches, within an hour, in which neither what a pool has to hand out nor its holders change, and its
-- units (devices, or slots of a MIG profile) in the order in which they are given (semantics 3).

{% set overlap_us = microseconds_between(
    'greatest(minutes.bucket_start_at, candidates.started_at)',
    'least(minutes.bucket_end_at, candidates.ended_at)'
) %}

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

    select * from {{ ref('stg_landing__gpu_processes') }}

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

    from candidates
    inner join slots
        on
            candidates.cluster = slots.cluster
            and candidates.gpu_id = slots.gpu_id
            and (candidates.slot_id is null or candidates.slot_id = slots.slot_id)
    inner join minutes
        on
            slots.slot_number = minutes.slot_number
            and candidates.hour_start_at = date_trunc('hour', minutes.minute_start_at)
            and minutes.bucket_start_at < candidates.ended_at
            and minutes.bucket_end_at > candidates.started_at
    group by candidates.cluster, candidates.pool, candidates.gpu_id, candidates.slot_id, candidates.started_at

),

with_processes as (

    select distinct
        candidates.cluster,
        candidates.pool,
        candidates.gpu_id,
        candidates.slot_id,
        candidates.started_at

    from candidates
    inner join processes
        on
            candidates.cluster = processes.cluster
            and candidates.gpu_id = processes.gpu_uuid
            and (candidates.slot_id is null or coalesce(processes.slot_uuid, candidates.slot_id) = candidates.slot_id)
            and processes.seen_at >= candidates.started_at
            and processes.seen_at < candidates.ended_at

),

shown as (

    select
        candidates.*,
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

    from candidates
    left join activity
        on
            candidates.cluster = activity.cluster
            and candidates.pool = activity.pool
            and candidates.gpu_id = activity.gpu_id
            and candidates.slot_id is not distinct from activity.slot_id
            and candidates.started_at = activity.started_at
    left join with_processes
        on
            candidates.cluster = with_processes.cluster
            and candidates.pool = with_processes.pool
            and candidates.gpu_id = with_processes.gpu_id
            and candidates.slot_id is not distinct from with_processes.slot_id
            and candidates.started_at = with_processes.started_at

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
        filled.hour_start_at,
        filled.started_at,
        filled.ended_at,
        filled.gpu_id,
        filled.slot_id,
        filled.is_implied,
        stretches.is_shared,
        holders.run_id,
        stretches.claimed_count > filled.offered_count + 1e-9 as is_over_allocated,
        -- the unit's part that is held, times the holder's part of what all hold
        holders.unit_count / stretches.claimed_count
        * greatest(0.0, least(filled.free_share, stretches.claimed_count - filled.given_before_count)) as share

    from filled
    inner join stretches
        on
            filled.cluster = stretches.cluster
            and filled.node = stretches.node
            and filled.pool = stretches.pool
            and filled.started_at = stretches.started_at
    inner join holders
        on
            filled.cluster = holders.cluster
            and filled.node = holders.node
            and filled.pool = holders.pool
            and filled.hour_start_at = holders.hour_start_at
            and filled.started_at = holders.started_at

)

select * from given
where share > 1e-12
