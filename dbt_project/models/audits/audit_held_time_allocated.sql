-- The promise of semantics 3: the time a run holds is what its scheduler allocated, times the time it ran. Of a run whose
-- claims are whole devices and that nothing cut short, promised is the scheduler's own figure; of the others (shares,
-- MIG slots, overlaps, runs that were never closed, more holders than devices, time out of service) it is each hold's
-- part of its device while the device was in service. A run-day that does not hold keeps the build from being published:
-- look for its run in `dim_runs` and compare `int_slot_holds` with the ledger.

{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

with

runs as (

    select
        runs.*,
        coalesce(named.is_placeholder, false) as is_placeholder

    from {{ ref('int_runs') }} as runs
    left join {{ ref('int_runs_named') }} as named on runs.run_id = named.run_id
    where runs.held_from_at < runs.held_until_at

),

claims as (

    select * from {{ ref('int_holds_claimed') }}

),

-- on a day without a claim of theirs they hold nothing: what names their devices ended before
claiming_runs as (

    select distinct run_id
    from claims

),

-- also on the days after the one on which the next holder of a device ended it
cut_short as (

    select distinct run_id
    from {{ ref('int_holds_exact') }}
    where flag in ('runaway', 'overlap')

),

states as (

    select
        states.*,
        state in ('down', 'maintenance', 'lost') as is_out_of_service

    from {{ ref('int_gpu_state_spans') }} as states
    where {{ in_touched_days('usage_date') }}

),

pool_claims as (

    select * from {{ ref('int_pool_claims_placed') }}
    where {{ in_touched_days('cast(hour_start_at as date)') }}

),

pool_units as (

    select * from {{ ref('int_pool_units_freed') }}
    where {{ in_touched_days('cast(hour_start_at as date)') }}

),

-- what others hold exactly is not in the pool: a run may be told of devices of which none is left
offered as (

    select
        pool_claims.run_id,
        pool_claims.hour_start_at,
        pool_claims.started_at,
        pool_claims.unit_count * {{ microseconds_between('pool_claims.started_at', 'pool_claims.ended_at') }} as claimed_us,
        coalesce(sum(
            pool_units.free_share * {{ microseconds_between(
                'greatest(pool_claims.started_at, pool_units.started_at)', 'least(pool_claims.ended_at, pool_units.ended_at)'
            ) }}
        ), 0) as offered_us

    from pool_claims
    left join pool_units
        on
            pool_claims.cluster = pool_units.cluster
            and pool_claims.node = pool_units.node
            and pool_claims.pool = pool_units.pool
            and pool_claims.hour_start_at = pool_units.hour_start_at
            and pool_units.started_at < pool_claims.ended_at
            and pool_units.ended_at > pool_claims.started_at
    -- a node of which no device is known has as many as are held
    where exists (
        select 1
        from states
        where
            states.cluster = pool_claims.cluster
            and states.node = pool_claims.node
            and states.usage_date = cast(pool_claims.hour_start_at as date)
    )
    group by
        pool_claims.run_id, pool_claims.hour_start_at, pool_claims.started_at, pool_claims.ended_at, pool_claims.node,
        pool_claims.pool, pool_claims.unit_count

),

short_pools as (

    select distinct
        run_id,
        cast(hour_start_at as date) as usage_date

    from offered
    where offered_us < claimed_us - 1

),

holds as (

    select * from {{ ref('int_slot_holds') }}
    where {{ in_touched_days('usage_date') }}

),

spans as (

    select * from {{ ref('int_slot_spans') }}
    where {{ in_touched_days('usage_date') }}

),

layouts as (

    select * from {{ ref('int_gpu_layouts') }}

),

ledger as (

    select * from {{ ref('fct_gpu_ledger_hourly') }}
    where run_id <> 'unallocated' and {{ in_touched_days('usage_date') }}

),

nodes_out_of_service as (

    select distinct
        usage_date,
        cluster,
        node

    from states
    where is_out_of_service

),

scaled_slots as (

    select distinct
        usage_date,
        cluster,
        slot_id

    from spans
    where held_share > 1.0 + 1e-9

),

-- a hold on the slot of a layout is in that layout; an implied device has none
placed as (

    select
        holds.usage_date,
        holds.cluster,
        holds.node,
        holds.gpu_id,
        holds.slot_id,
        holds.run_id,
        holds.share,
        holds.is_shared,
        holds.is_implied,
        holds.flag,
        coalesce(layouts.slot_fraction, 1.0) as slot_fraction,
        greatest(holds.started_at, coalesce(layouts.valid_from_at, holds.started_at)) as started_at,
        least(holds.ended_at, coalesce(layouts.valid_until_at, holds.ended_at)) as ended_at,
        scaled_slots.slot_id is not null as is_scaled

    from holds
    left join layouts
        on
            holds.cluster = layouts.cluster
            and holds.gpu_id = layouts.gpu_id
            and holds.slot_id = layouts.slot_id
            and holds.started_at < layouts.valid_until_at
            and holds.ended_at > layouts.valid_from_at
    left join scaled_slots
        on
            holds.usage_date = scaled_slots.usage_date
            and holds.cluster = scaled_slots.cluster
            and holds.slot_id = scaled_slots.slot_id

),

-- what was held while the device was in inventory and in service
served_times as (

    select
        placed.usage_date,
        placed.cluster,
        placed.slot_id,
        placed.run_id,
        sum(
            placed.share * placed.slot_fraction * {{ microseconds_between(
                'greatest(placed.started_at, states.started_at)', 'least(placed.ended_at, states.ended_at)'
            ) }}
        ) as served_us

    from placed
    inner join states
        on
            placed.cluster = states.cluster
            and placed.gpu_id = states.gpu_id
            and placed.usage_date = states.usage_date
            and states.started_at < placed.ended_at
            and states.ended_at > placed.started_at
    where not placed.is_implied and not states.is_out_of_service
    group by placed.usage_date, placed.cluster, placed.slot_id, placed.run_id

),

-- shares above 1 in sum are scaled, so that a slot's holders have its time and no more
scaled_times as (

    select
        spans.usage_date,
        spans.cluster,
        spans.slot_id,
        holds.run_id,
        sum(
            holds.share * spans.slot_fraction / greatest(1.0, spans.held_share)
            * {{ microseconds_between('spans.started_at', 'spans.ended_at') }}
        ) as held_us

    from spans
    inner join scaled_slots
        on
            spans.usage_date = scaled_slots.usage_date
            and spans.cluster = scaled_slots.cluster
            and spans.slot_id = scaled_slots.slot_id
    inner join holds
        on
            spans.cluster = holds.cluster
            and spans.slot_id = holds.slot_id
            and spans.usage_date = holds.usage_date
            and holds.started_at <= spans.started_at
            and holds.ended_at >= spans.ended_at
    where not spans.is_out_of_service
    group by spans.usage_date, spans.cluster, spans.slot_id, holds.run_id

),

slot_times as (

    select
        placed.usage_date,
        placed.cluster,
        placed.slot_id,
        placed.run_id,
        sum(placed.share * placed.slot_fraction * {{ microseconds_between('placed.started_at', 'placed.ended_at') }}) as held_us,
        bool_or(placed.is_implied) as is_implied,
        bool_or(placed.is_shared or placed.slot_fraction < 1.0 or placed.flag <> '' or placed.is_scaled) as is_cut

    from placed
    group by placed.usage_date, placed.cluster, placed.slot_id, placed.run_id

),

held as (

    select
        slot_times.usage_date,
        slot_times.cluster,
        slot_times.run_id,
        sum(
            case
                when slot_times.is_implied then slot_times.held_us
                else coalesce(scaled_times.held_us, served_times.served_us, 0)
            end
        ) as held_us,
        bool_or(
            slot_times.is_cut
            or (not slot_times.is_implied and abs(slot_times.held_us - coalesce(served_times.served_us, 0)) > 1)
        ) as is_cut

    from slot_times
    left join served_times
        on
            slot_times.usage_date = served_times.usage_date
            and slot_times.cluster = served_times.cluster
            and slot_times.slot_id = served_times.slot_id
            and slot_times.run_id = served_times.run_id
    left join scaled_times
        on
            slot_times.usage_date = scaled_times.usage_date
            and slot_times.cluster = scaled_times.cluster
            and slot_times.slot_id = scaled_times.slot_id
            and slot_times.run_id = scaled_times.run_id
    group by slot_times.usage_date, slot_times.cluster, slot_times.run_id

),

run_days as (

    select
        runs.*,
        {{ each_touched('day', 'runs.held_from_at', 'runs.held_until_at') }} as day_start_at

    from runs

),

allocated as (

    select
        cast(day_start_at as date) as usage_date,
        cluster,
        run_id,
        gpu_count * {{ microseconds_between(
            'greatest(held_from_at, day_start_at)', 'least(held_until_at, day_start_at + interval 1 day)'
        ) }} as allocated_us,
        gpu_count > 0 and flag = '' and not is_placeholder as is_told

    from run_days
    where {{ in_touched_days('cast(day_start_at as date)') }}

),

-- what a run claims may be less than its devices times its time: a share, a profile, evidence that begins later or ends
-- sooner or counts fewer, a node out of service
claimed as (

    select
        allocated.usage_date,
        allocated.run_id,
        sum(
            claims.gpu_count
            * {{ microseconds_between(
                "greatest(claims.started_at, cast(allocated.usage_date as timestamp))",
                "least(claims.ended_at, cast(allocated.usage_date as timestamp) + interval 1 day)"
            ) }}
        ) as claimed_us,
        bool_or(
            claims.share_ratio is not null
            or claims.mig_profile is not null
            or claims.slot_uuid is not null
            or nodes_out_of_service.node is not null
        ) as is_cut

    from allocated
    inner join claims
        on
            allocated.run_id = claims.run_id
            and claims.started_at < cast(allocated.usage_date as timestamp) + interval 1 day
            and claims.ended_at > cast(allocated.usage_date as timestamp)
    left join nodes_out_of_service
        on
            claims.cluster = nodes_out_of_service.cluster
            and claims.node = nodes_out_of_service.node
            and allocated.usage_date = nodes_out_of_service.usage_date
    group by allocated.usage_date, allocated.run_id

),

measured as (

    select
        usage_date,
        cluster,
        run_id,
        cast(sum(gpu_microseconds) as bigint) as measured_us,
        count(*) as row_count

    from ledger
    group by usage_date, cluster, run_id

),

known as (

    select usage_date, cluster, run_id from allocated
    union
    select usage_date, cluster, run_id from held
    union
    select usage_date, cluster, run_id from measured

),

compared as (

    select
        known.usage_date,
        known.cluster,
        known.run_id,
        coalesce(allocated.allocated_us, held.held_us, 0) as allocated_us,
        case
            when
                allocated.is_told
                and not coalesce(held.is_cut, false)
                and not coalesce(claimed.is_cut, false)
                and cut_short.run_id is null
                and short_pools.run_id is null
                and (
                    (claimed.claimed_us is null and claiming_runs.run_id is null)
                    or abs(claimed.claimed_us - allocated.allocated_us) <= 1
                )
                then allocated.allocated_us
            else coalesce(held.held_us, 0)
        end as promised_us,
        coalesce(measured.measured_us, 0) as measured_us,
        -- each part of a device-hour is off by less than a microsecond (semantics 1)
        coalesce(measured.row_count, 0) + 1 as tolerance_us

    from known
    left join allocated on known.usage_date = allocated.usage_date and known.run_id = allocated.run_id
    left join held on known.usage_date = held.usage_date and known.cluster = held.cluster and known.run_id = held.run_id
    left join claimed on known.usage_date = claimed.usage_date and known.run_id = claimed.run_id
    left join claiming_runs on known.run_id = claiming_runs.run_id
    left join cut_short on known.run_id = cut_short.run_id
    left join short_pools on known.usage_date = short_pools.usage_date and known.run_id = short_pools.run_id
    left join measured
        on known.usage_date = measured.usage_date and known.cluster = measured.cluster and known.run_id = measured.run_id

),

audited as (

    select
        usage_date,
        cluster,
        cast(round(sum(allocated_us)) as bigint) as allocated_us,
        cast(round(sum(promised_us)) as bigint) as promised,
        cast(sum(measured_us) as bigint) as measured,
        cast(sum(measured_us) - round(sum(promised_us)) as bigint) as difference,
        count(case when abs(measured_us - promised_us) > tolerance_us then 1 end) as run_days_off

    from compared
    group by usage_date, cluster

),

final as (

    select
        audited.*,
        run_days_off = 0 as holds

    from audited

)

select * from final
