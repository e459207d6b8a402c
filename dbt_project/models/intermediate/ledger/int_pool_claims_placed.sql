-- What runs claim of a node without saying which, hour by hour, and of which pool: of the node's devices (pool `gpu`), or
-- of its slots of a MIG profile. Where the node has no known slot of the profile, what is claimed is that fraction of a
-- device (semantics 2, 3).

{% set of_devices = "'gpu'" %}

with

profile_names as (

    select * from {{ ref('int_mig_profiles_named') }}

),

-- a run that the scheduler never closed ends on all its devices, those of the pool included
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
        claims.run_id,
        claims.cluster,
        claims.node,
        claims.gpu_count,
        claims.share_ratio,
        claims.started_at,
        least(claims.ended_at, coalesce(runaways.ended_at, claims.ended_at), {{ window_end() }}) as ended_at,
        coalesce(profile_names.mig_profile, claims.mig_profile, {{ of_devices }}) as pool,
        -- 1c.3g.71gb is one of the three compute instances of a slot 3g.71gb
        coalesce(
            cast({{ captured_text('claims.mig_profile', "'([0-9]+)c[.][0-9]+g'") }} as double)
            / nullif(cast({{ captured_text('claims.mig_profile', "'([0-9]+)g[.]'") }} as double), 0.0),
            1.0
        ) as instance_part,
        coalesce(cast({{ captured_text('claims.mig_profile', "'([0-9]+)g[.]'") }} as double), 1.0) as compute_slices

    from {{ ref('int_holds_claimed') }} as claims
    left join runaways on claims.run_id = runaways.run_id
    left join profile_names on lower(claims.mig_profile) = profile_names.written_as
    where claims.gpu_uuid is null and claims.gpu_count > 0

),

states as (

    select * from {{ ref('int_gpu_state_spans') }}

),

layouts as (

    select
        layouts.*,
        coalesce(profile_names.mig_profile, layouts.mig_profile) as pool

    from {{ ref('int_gpu_layouts') }} as layouts
    left join profile_names on lower(layouts.mig_profile) = profile_names.written_as

),

profiles as (

    select
        mig_profile,
        max(card_compute_slices) as card_slices

    from {{ ref('mig_profiles') }}
    group by mig_profile

),

claim_hours as (

    select
        claims.*,
        {{ each_touched('hour', 'claims.started_at', 'claims.ended_at') }} as hour_start_at

    from claims
    where started_at < ended_at

),

in_hours as (

    select
        run_id,
        cluster,
        node,
        pool,
        hour_start_at,
        greatest(started_at, hour_start_at) as started_at,
        least(ended_at, hour_start_at + interval 1 hour) as ended_at,
        instance_part,
        compute_slices,
        sum(gpu_count * coalesce(share_ratio, 1.0)) as gpu_count,
        -- a compute instance is a share of its slot
        bool_or(share_ratio is not null or instance_part < 1.0) as is_shared

    from claim_hours
    where {{ in_ledger_days('cast(hour_start_at as date)') }}
    group by
        run_id, cluster, node, pool, hour_start_at, greatest(started_at, hour_start_at),
        least(ended_at, hour_start_at + interval 1 hour), instance_part, compute_slices

),

of_profiles as (

    select * from in_hours
    where pool <> {{ of_devices }}

),

profiles_claimed as (

    select distinct cluster, node, pool, hour_start_at
    from of_profiles

),

-- when the node has a slot of the profile, in service or not
slot_pieces as (

    select
        profiles_claimed.cluster,
        profiles_claimed.node,
        profiles_claimed.pool,
        profiles_claimed.hour_start_at,
        greatest(states.started_at, layouts.valid_from_at, profiles_claimed.hour_start_at) as started_at,
        least(states.ended_at, layouts.valid_until_at, profiles_claimed.hour_start_at + interval 1 hour) as ended_at

    from profiles_claimed
    inner join states
        on
            profiles_claimed.cluster = states.cluster
            and profiles_claimed.node = states.node
            and cast(profiles_claimed.hour_start_at as date) = states.usage_date
            and states.started_at < profiles_claimed.hour_start_at + interval 1 hour
            and states.ended_at > profiles_claimed.hour_start_at
    inner join layouts
        on
            states.cluster = layouts.cluster
            and states.gpu_id = layouts.gpu_id
            and layouts.pool = profiles_claimed.pool
            and layouts.valid_from_at < states.ended_at
            and layouts.valid_until_at > states.started_at

),

slot_pieces_marked as (

    select
        slot_pieces.*,
        case
            when
                started_at <= max(ended_at) over (
                    partition by cluster, node, pool, hour_start_at
                    order by started_at nulls last, ended_at nulls last
                    rows between unbounded preceding and 1 preceding
                )
                then 0
            else 1
        end as begins

    from slot_pieces
    where started_at < ended_at

),

slots_known as (

    select
        cluster,
        node,
        pool,
        hour_start_at,
        min(started_at) as started_at,
        max(ended_at) as ended_at

    from (
        select
            slot_pieces_marked.*,
            sum(begins) over (
                partition by cluster, node, pool, hour_start_at
                order by started_at nulls last, ended_at nulls last
                rows between unbounded preceding and current row
            ) as stretch_number
        from slot_pieces_marked
    ) as numbered
    group by cluster, node, pool, hour_start_at, stretch_number

),

-- compute slices of the partitioned cards that are on the node
cards_known as (

    select
        profiles_claimed.cluster,
        profiles_claimed.node,
        profiles_claimed.hour_start_at,
        max(case when layouts.card_slices > 1 then layouts.card_slices end) as card_slices

    from (select distinct cluster, node, hour_start_at from profiles_claimed) as profiles_claimed
    inner join states
        on
            profiles_claimed.cluster = states.cluster
            and profiles_claimed.node = states.node
            and cast(profiles_claimed.hour_start_at as date) = states.usage_date
    inner join layouts on states.cluster = layouts.cluster and states.gpu_id = layouts.gpu_id
    group by profiles_claimed.cluster, profiles_claimed.node, profiles_claimed.hour_start_at

),

cuts as (

    select run_id, cluster, node, pool, hour_start_at, started_at as claim_started_at, started_at as cut_at
    from of_profiles
    union
    select
        of_profiles.run_id, of_profiles.cluster, of_profiles.node, of_profiles.pool, of_profiles.hour_start_at,
        of_profiles.started_at, slots_known.started_at
    from of_profiles
    inner join slots_known
        on
            of_profiles.cluster = slots_known.cluster
            and of_profiles.node = slots_known.node
            and of_profiles.pool = slots_known.pool
            and of_profiles.hour_start_at = slots_known.hour_start_at
            and slots_known.started_at > of_profiles.started_at
            and slots_known.started_at < of_profiles.ended_at
    union
    select
        of_profiles.run_id, of_profiles.cluster, of_profiles.node, of_profiles.pool, of_profiles.hour_start_at,
        of_profiles.started_at, slots_known.ended_at
    from of_profiles
    inner join slots_known
        on
            of_profiles.cluster = slots_known.cluster
            and of_profiles.node = slots_known.node
            and of_profiles.pool = slots_known.pool
            and of_profiles.hour_start_at = slots_known.hour_start_at
            and slots_known.ended_at > of_profiles.started_at
            and slots_known.ended_at < of_profiles.ended_at

),

stretches as (

    select
        cuts.*,
        lead(cut_at) over (
            partition by run_id, cluster, node, pool, hour_start_at, claim_started_at order by cut_at nulls last
        ) as next_cut_at

    from cuts

),

of_profiles_placed as (

    select
        of_profiles.run_id,
        of_profiles.cluster,
        of_profiles.node,
        case when slots_known.pool is null then {{ of_devices }} else of_profiles.pool end as pool,
        of_profiles.hour_start_at,
        stretches.cut_at as started_at,
        least(coalesce(stretches.next_cut_at, of_profiles.ended_at), of_profiles.ended_at) as ended_at,
        of_profiles.gpu_count * of_profiles.instance_part
        * case
            when slots_known.pool is null
                then least(
                    1.0, of_profiles.compute_slices / coalesce(cards_known.card_slices, profiles.card_slices, 7)
                )
            else 1.0
        end as unit_count,
        of_profiles.is_shared

    from of_profiles
    inner join stretches
        on
            of_profiles.run_id = stretches.run_id
            and of_profiles.cluster = stretches.cluster
            and of_profiles.node = stretches.node
            and of_profiles.pool = stretches.pool
            and of_profiles.hour_start_at = stretches.hour_start_at
            and of_profiles.started_at = stretches.claim_started_at
    left join slots_known
        on
            of_profiles.cluster = slots_known.cluster
            and of_profiles.node = slots_known.node
            and of_profiles.pool = slots_known.pool
            and of_profiles.hour_start_at = slots_known.hour_start_at
            and slots_known.started_at <= stretches.cut_at
            and slots_known.ended_at > stretches.cut_at
    left join cards_known
        on
            of_profiles.cluster = cards_known.cluster
            and of_profiles.node = cards_known.node
            and of_profiles.hour_start_at = cards_known.hour_start_at
    left join profiles on of_profiles.pool = profiles.mig_profile

),

placed as (

    select run_id, cluster, node, pool, hour_start_at, started_at, ended_at, gpu_count as unit_count, is_shared
    from in_hours
    where pool = {{ of_devices }}

    union all

    select run_id, cluster, node, pool, hour_start_at, started_at, ended_at, unit_count, is_shared
    from of_profiles_placed

)

select * from placed
where started_at < ended_at
