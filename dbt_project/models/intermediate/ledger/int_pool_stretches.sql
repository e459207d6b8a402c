-- Node pools: stretches, within an hour, in which neither a node's devices nor its holders change, and the devices
-- of each in the order in which they show work (semantics 3).

{% set overlap_us = microseconds_between(
    'greatest(minutes.bucket_start_at, candidates.started_at)',
    'least(minutes.bucket_end_at, candidates.ended_at)'
) %}

with

claims as (

    select * from {{ ref('int_holds_claimed') }}
    where gpu_uuid is null and gpu_count > 0

),

states as (

    select * from {{ ref('int_gpu_state_spans') }}

),

exact as (

    select * from {{ ref('int_holds_exact') }}

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

claim_hours as (

    select
        claims.run_id,
        claims.cluster,
        claims.node,
        claims.started_at,
        claims.ended_at,
        claims.gpu_count * coalesce(claims.share_ratio, 1.0) as gpu_count,
        claims.share_ratio,
        {{ each_touched('hour', 'claims.started_at', 'claims.ended_at') }} as hour_start_at

    from claims

),

pool_claims as (

    select
        run_id,
        cluster,
        node,
        hour_start_at,
        greatest(started_at, hour_start_at) as started_at,
        least(ended_at, hour_start_at + interval 1 hour) as ended_at,
        gpu_count,
        share_ratio

    from claim_hours
    where {{ in_ledger_days('cast(hour_start_at as date)') }}

),

pool_hours as (

    select distinct cluster, node, hour_start_at
    from pool_claims

),

-- the time that a device may be given to the pool, whatever else changes on its node meanwhile
available_pieces as (

    select
        pool_hours.cluster,
        pool_hours.node,
        pool_hours.hour_start_at,
        states.gpu_id,
        greatest(states.started_at, pool_hours.hour_start_at) as started_at,
        least(states.ended_at, pool_hours.hour_start_at + interval 1 hour) as ended_at

    from pool_hours
    inner join states
        on
            pool_hours.cluster = states.cluster
            and pool_hours.node = states.node
            and cast(pool_hours.hour_start_at as date) = states.usage_date
            and states.started_at < pool_hours.hour_start_at + interval 1 hour
            and states.ended_at > pool_hours.hour_start_at
    where states.state not in ('down', 'maintenance', 'lost')

),

available_marked as (

    select
        available_pieces.*,
        case
            when
                started_at <= lag(ended_at) over (
                    partition by cluster, node, hour_start_at, gpu_id order by started_at nulls last
                )
                then 0
            else 1
        end as begins

    from available_pieces

),

available_numbered as (

    select
        available_marked.*,
        sum(begins) over (
            partition by cluster, node, hour_start_at, gpu_id
            order by started_at nulls last
            rows between unbounded preceding and current row
        ) as piece_number

    from available_marked

),

available as (

    select
        cluster,
        node,
        hour_start_at,
        gpu_id,
        min(started_at) as started_at,
        max(ended_at) as ended_at

    from available_numbered
    group by cluster, node, hour_start_at, gpu_id, piece_number

),

taken as (

    select distinct
        available.cluster,
        available.node,
        available.hour_start_at,
        available.gpu_id,
        greatest(exact.started_at, available.hour_start_at) as started_at,
        least(exact.ended_at, available.hour_start_at + interval 1 hour) as ended_at

    from available
    inner join exact
        on
            available.cluster = exact.cluster
            and available.gpu_id = exact.gpu_id
            and exact.started_at < available.ended_at
            and exact.ended_at > available.started_at

),

cuts as (

    select cluster, node, hour_start_at, started_at as cut_at from pool_claims
    union
    select cluster, node, hour_start_at, ended_at from pool_claims
    union
    select cluster, node, hour_start_at, started_at from available
    union
    select cluster, node, hour_start_at, ended_at from available
    union
    select cluster, node, hour_start_at, started_at from taken
    union
    select cluster, node, hour_start_at, ended_at from taken

),

between_cuts as (

    select *
    from (
        select
            cluster,
            node,
            hour_start_at,
            cut_at as started_at,
            lead(cut_at) over (partition by cluster, node, hour_start_at order by cut_at nulls last) as ended_at
        from cuts
    ) as cut_pairs
    where ended_at is not null

),

pool_devices as (

    select
        between_cuts.cluster,
        between_cuts.node,
        between_cuts.hour_start_at,
        between_cuts.started_at,
        {{ joined_text('available.gpu_id', 'available.gpu_id') }} as devices

    from between_cuts
    inner join available
        on
            between_cuts.cluster = available.cluster
            and between_cuts.node = available.node
            and between_cuts.hour_start_at = available.hour_start_at
            and available.started_at <= between_cuts.started_at
            and available.ended_at >= between_cuts.ended_at
    left join taken
        on
            available.cluster = taken.cluster
            and available.gpu_id = taken.gpu_id
            and available.hour_start_at = taken.hour_start_at
            and taken.started_at < between_cuts.ended_at
            and taken.ended_at > between_cuts.started_at
    where taken.gpu_id is null
    group by between_cuts.cluster, between_cuts.node, between_cuts.hour_start_at, between_cuts.started_at

),

pool_holders as (

    select
        between_cuts.cluster,
        between_cuts.node,
        between_cuts.hour_start_at,
        between_cuts.started_at,
        {{ joined_text('pool_claims.run_id', 'pool_claims.run_id') }} as holders

    from between_cuts
    inner join pool_claims
        on
            between_cuts.cluster = pool_claims.cluster
            and between_cuts.node = pool_claims.node
            and between_cuts.hour_start_at = pool_claims.hour_start_at
            and pool_claims.started_at <= between_cuts.started_at
            and pool_claims.ended_at >= between_cuts.ended_at
    group by between_cuts.cluster, between_cuts.node, between_cuts.hour_start_at, between_cuts.started_at

),

-- a change that leaves the pool's devices and holders as they were (one exact holder after another) is none
stretches_marked as (

    select
        between_cuts.*,
        case
            when
                lag(concat_ws('|', pool_devices.devices, pool_holders.holders)) over (
                    partition by between_cuts.cluster, between_cuts.node, between_cuts.hour_start_at
                    order by between_cuts.started_at nulls last
                ) = concat_ws('|', pool_devices.devices, pool_holders.holders)
                then 0
            else 1
        end as begins

    from between_cuts
    left join pool_devices
        on
            between_cuts.cluster = pool_devices.cluster
            and between_cuts.node = pool_devices.node
            and between_cuts.hour_start_at = pool_devices.hour_start_at
            and between_cuts.started_at = pool_devices.started_at
    left join pool_holders
        on
            between_cuts.cluster = pool_holders.cluster
            and between_cuts.node = pool_holders.node
            and between_cuts.hour_start_at = pool_holders.hour_start_at
            and between_cuts.started_at = pool_holders.started_at

),

stretches as (

    select
        cluster,
        node,
        hour_start_at,
        min(started_at) as started_at,
        max(ended_at) as ended_at

    from (
        select
            stretches_marked.*,
            sum(begins) over (
                partition by cluster, node, hour_start_at
                order by started_at nulls last
                rows between unbounded preceding and current row
            ) as stretch_number
        from stretches_marked
    ) as numbered
    group by cluster, node, hour_start_at, stretch_number

),

claimed as (

    select
        stretches.cluster,
        stretches.node,
        stretches.hour_start_at,
        stretches.started_at,
        stretches.ended_at,
        sum(pool_claims.gpu_count) as claimed_gpu_count,
        bool_or(pool_claims.share_ratio is not null) as is_shared

    from stretches
    inner join pool_claims
        on
            stretches.cluster = pool_claims.cluster
            and stretches.node = pool_claims.node
            and stretches.hour_start_at = pool_claims.hour_start_at
            and pool_claims.started_at <= stretches.started_at
            and pool_claims.ended_at >= stretches.ended_at
    group by stretches.cluster, stretches.node, stretches.hour_start_at, stretches.started_at, stretches.ended_at

),

candidates as (

    select
        claimed.cluster,
        claimed.node,
        claimed.hour_start_at,
        claimed.started_at,
        claimed.ended_at,
        available.gpu_id

    from claimed
    inner join available
        on
            claimed.cluster = available.cluster
            and claimed.node = available.node
            and claimed.hour_start_at = available.hour_start_at
            and available.started_at <= claimed.started_at
            and available.ended_at >= claimed.ended_at
    left join taken
        on
            available.cluster = taken.cluster
            and available.gpu_id = taken.gpu_id
            and available.hour_start_at = taken.hour_start_at
            and taken.started_at < claimed.ended_at
            and taken.ended_at > claimed.started_at
    where taken.gpu_id is null

),

activity as (

    select
        candidates.cluster,
        candidates.gpu_id,
        candidates.started_at,
        sum(minutes.activity_us * {{ overlap_us }}) / nullif(sum(minutes.covered_us * {{ overlap_us }}), 0) as activity,
        sum(minutes.memory_bytes * minutes.covered_us * {{ overlap_us }})
            / nullif(sum(minutes.covered_us * {{ overlap_us }}), 0) as memory_bytes

    from candidates
    inner join slots on candidates.cluster = slots.cluster and candidates.gpu_id = slots.gpu_id
    inner join minutes
        on
            slots.slot_number = minutes.slot_number
            and candidates.hour_start_at = date_trunc('hour', minutes.minute_start_at)
            and minutes.bucket_start_at < candidates.ended_at
            and minutes.bucket_end_at > candidates.started_at
    group by candidates.cluster, candidates.gpu_id, candidates.started_at

),

with_processes as (

    select distinct
        candidates.cluster,
        candidates.gpu_id,
        candidates.started_at

    from candidates
    inner join processes
        on
            candidates.cluster = processes.cluster
            and candidates.gpu_id = processes.gpu_uuid
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
            and candidates.gpu_id = activity.gpu_id
            and candidates.started_at = activity.started_at
    left join with_processes
        on
            candidates.cluster = with_processes.cluster
            and candidates.gpu_id = with_processes.gpu_id
            and candidates.started_at = with_processes.started_at

),

ranked as (

    select
        shown.*,
        row_number() over (
            partition by cluster, node, started_at
            order by
                evidence nulls last,
                case when evidence <= 2 then activity end desc nulls last,
                case when evidence <= 2 then memory_bytes end desc nulls last,
                gpu_id nulls last
        ) as device_rank,
        count(*) over (partition by cluster, node, started_at) as device_count

    from shown

),

-- a node with no known device has as many implied ones as are held (semantics 3)
implied as (

    select
        claimed.cluster,
        claimed.node,
        claimed.hour_start_at,
        claimed.started_at,
        claimed.ended_at,
        claimed.cluster || '/' || claimed.node || '#' || cast(claimed.device_number as varchar) as gpu_id,
        claimed.device_number as device_rank,
        cast(ceil(claimed.claimed_gpu_count - 1e-9) as bigint) as device_count,
        true as is_implied

    from (
        select
            claimed.*,
            {{ each_number('cast(ceil(claimed.claimed_gpu_count - 1e-9) as bigint)') }} as device_number
        from claimed
    ) as claimed
    left join states
        on
            claimed.cluster = states.cluster
            and claimed.node = states.node
            and cast(claimed.hour_start_at as date) = states.usage_date
            and states.started_at < claimed.ended_at
            and states.ended_at > claimed.started_at
    where states.gpu_id is null

),

devices as (

    select
        cluster,
        node,
        hour_start_at,
        started_at,
        ended_at,
        gpu_id,
        device_rank,
        device_count,
        false as is_implied

    from ranked

    union all

    select * from implied

),

given as (

    select
        devices.cluster,
        devices.node,
        devices.hour_start_at,
        devices.started_at,
        devices.ended_at,
        devices.gpu_id,
        devices.is_implied,
        claimed.is_shared,
        pool_claims.run_id,
        claimed.claimed_gpu_count > devices.device_count + 1e-9 as is_over_allocated,
        -- the device's part that is held, times the holder's part of what all hold
        sum(pool_claims.gpu_count) / max(claimed.claimed_gpu_count)
            * max(greatest(0.0, least(1.0, claimed.claimed_gpu_count - (devices.device_rank - 1)))) as share

    from devices
    inner join claimed
        on
            devices.cluster = claimed.cluster
            and devices.node = claimed.node
            and devices.started_at = claimed.started_at
    inner join pool_claims
        on
            devices.cluster = pool_claims.cluster
            and devices.node = pool_claims.node
            and devices.hour_start_at = pool_claims.hour_start_at
            and pool_claims.started_at <= devices.started_at
            and pool_claims.ended_at >= devices.ended_at
    group by
        devices.cluster, devices.node, devices.hour_start_at, devices.started_at, devices.ended_at, devices.gpu_id,
        devices.is_implied, devices.device_count, claimed.is_shared, claimed.claimed_gpu_count, pool_claims.run_id

)

select * from given
where share > 1e-12
