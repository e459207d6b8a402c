-- Holds of known devices, on their slots. Two exclusive holders cannot overlap: a run that the scheduler never closed
-- ends, on all its devices, at the next exclusive holder's start on any of them (runaway); of two closed ones the
-- earlier ends, on that slot, where the later starts (overlap) (semantics 3).

with

claims as (

    select * from {{ ref('int_holds_claimed') }}
    where gpu_uuid is not null

),

runs as (

    select * from {{ ref('int_runs') }}

),

layouts as (

    select * from {{ ref('int_gpu_layouts') }}

),

-- a claim on the card, or on an instance that the card's layout of the time does not know, is on all its slots
on_slots as (

    select
        claims.run_id,
        claims.cluster,
        claims.node,
        layouts.gpu_id,
        layouts.slot_id,
        claims.share_ratio,
        greatest(claims.started_at, layouts.valid_from_at) as started_at,
        least(claims.ended_at, layouts.valid_until_at) as ended_at,
        -- what labels show ends slot by slot, and not at what a scheduler says of another one
        coalesce(runs.ended_at is null, true) and not coalesce(claims.is_name_only, false) as is_open,
        claims.assignment_method

    from claims
    inner join layouts
        on
            claims.cluster = layouts.cluster
            and claims.gpu_uuid = layouts.gpu_id
            and not layouts.is_stranded
            and claims.started_at < layouts.valid_until_at
            and claims.ended_at > layouts.valid_from_at
            and (claims.slot_uuid is null or claims.slot_uuid = layouts.slot_id or layouts.slot_id = layouts.gpu_id)
    left join runs on claims.run_id = runs.run_id

),

-- the same hold seen again (a scrape an hour later) is the same hold
seen_again as (

    select
        on_slots.*,
        case
            when
                started_at <= max(ended_at) over (
                    partition by run_id, slot_id, share_ratio
                    order by started_at nulls last, ended_at nulls last
                    rows between unbounded preceding and 1 preceding
                )
                then 0
            else 1
        end as begins

    from on_slots

),

seen_numbered as (

    select
        seen_again.*,
        sum(begins) over (
            partition by run_id, slot_id, share_ratio
            order by started_at nulls last, ended_at nulls last
            rows between unbounded preceding and current row
        ) as hold_number

    from seen_again

),

distinct_holds as (

    select
        run_id,
        cluster,
        min(node) as node,
        gpu_id,
        slot_id,
        share_ratio,
        min(started_at) as started_at,
        max(ended_at) as ended_at,
        bool_or(is_open) as is_open,
        min(assignment_method) as assignment_method

    from seen_numbered
    group by run_id, cluster, gpu_id, slot_id, share_ratio, hold_number

),

followed as (

    select
        distinct_holds.*,
        lead(started_at) over (
            partition by cluster, slot_id order by started_at nulls last, run_id nulls last
        ) as next_started_at,
        lead(run_id) over (
            partition by cluster, slot_id order by started_at nulls last, run_id nulls last
        ) as next_run_id

    from distinct_holds
    where share_ratio is null

),

runaways as (

    select
        run_id,
        min(next_started_at) as capped_at

    from followed
    where is_open and next_run_id <> run_id and next_started_at < ended_at
    group by run_id

),

resolved as (

    select
        distinct_holds.run_id,
        distinct_holds.cluster,
        distinct_holds.node,
        distinct_holds.gpu_id,
        distinct_holds.slot_id,
        distinct_holds.share_ratio,
        distinct_holds.started_at,
        least(
            distinct_holds.ended_at,
            coalesce(runaways.capped_at, distinct_holds.ended_at),
            case
                when followed.next_run_id <> distinct_holds.run_id then coalesce(followed.next_started_at, distinct_holds.ended_at)
                else distinct_holds.ended_at
            end
        ) as ended_at,
        distinct_holds.assignment_method,
        case
            when runaways.run_id is not null then 'runaway'
            when followed.next_run_id <> distinct_holds.run_id and followed.next_started_at < distinct_holds.ended_at then 'overlap'
            else ''
        end as flag

    from distinct_holds
    left join runaways on distinct_holds.run_id = runaways.run_id
    left join followed
        on
            distinct_holds.cluster = followed.cluster
            and distinct_holds.slot_id = followed.slot_id
            and distinct_holds.run_id = followed.run_id
            and distinct_holds.started_at = followed.started_at
            and distinct_holds.share_ratio is null

)

select * from resolved
where started_at < ended_at
