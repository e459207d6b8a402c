-- What each slot did in each minute of the days this build works on: whole-card readings of a partitioned card speak
-- for all its slots, stale stretches cover nothing, and of two sources the better one is used (semantics 4).

with

minutes as (

    select * from {{ ref('int_gpu_minutes_clocked') }}
    where {{ in_partitions('ledger', day='usage_date') }} and {{ in_ledger_minutes('bucket_start_at') }}

),

frozen as (

    select * from {{ ref('int_gpu_minutes_frozen') }}
    -- as told by clocks that may be off by more than the half hour the ledger looks ahead
    where {{ in_ledger_days('usage_date') }}

),

states as (

    select * from {{ ref('int_gpu_state_spans') }}

),

numbered_layouts as (

    select
        layouts.*,
        slots.slot_number

    from {{ ref('int_gpu_layouts') }} as layouts
    inner join {{ ref('int_slots_numbered') }} as slots
        on
            layouts.cluster = slots.cluster
            and layouts.gpu_id = slots.gpu_id
            and layouts.slot_id = slots.slot_id

),

-- a slot by each name that sources have for it
layouts as (

    select
        numbered_layouts.*,
        numbered_layouts.slot_id as known_as,
        false as is_alias

    from numbered_layouts

    union all

    select
        numbered_layouts.*,
        slot_names.slot_name as known_as,
        true as is_alias

    from numbered_layouts
    inner join {{ ref('int_slot_names') }} as slot_names
        on
            numbered_layouts.cluster = slot_names.cluster
            and numbered_layouts.gpu_id = slot_names.gpu_id
            and numbered_layouts.slot_id = slot_names.slot_id
            and slot_names.slot_name <> slot_names.slot_id

),

frozen_marked as (

    select
        frozen.*,
        case
            when
                date_trunc('minute', lag(bucket_start_at) over (
                    partition by cluster, gpu_uuid, slot_uuid, source order by bucket_start_at nulls last
                )) >= date_trunc('minute', bucket_start_at) - interval 1 minute
                then 0
            else 1
        end as begins

    from frozen

),

frozen_numbered as (

    select
        frozen_marked.*,
        sum(begins) over (
            partition by cluster, gpu_uuid, slot_uuid, source
            order by bucket_start_at nulls last
            rows between unbounded preceding and current row
        ) as stretch_number

    from frozen_marked

),

stale as (

    select
        cluster,
        gpu_uuid,
        slot_uuid,
        source,
        bucket_start_at

    from (
        select
            frozen_numbered.*,
            count(*) over (partition by cluster, gpu_uuid, slot_uuid, source, stretch_number) as stretch_minutes,
            sum(reading_count) over (partition by cluster, gpu_uuid, slot_uuid, source, stretch_number) as stretch_readings
        from frozen_numbered
    ) as stretches
    where stretch_minutes >= {{ var('stale_minutes') }} and stretch_readings >= {{ var('stale_readings') }}

),

-- fractions are shared by the slots only where the reading is of the whole card
by_slot as (

    select
        minutes.usage_date,
        minutes.bucket_start_at,
        minutes.bucket_end_at,
        layouts.cluster,
        layouts.gpu_id,
        layouts.slot_number,
        layouts.card_slices,
        layouts.slot_fraction,
        -- one source may speak of a slot by two names
        case when layouts.is_alias then concat_ws(' ', minutes.source, layouts.known_as) else minutes.source end as source,
        stale.source is not null as is_stale,
        case when stale.source is null then minutes.covered_us else 0 end as covered_us,
        minutes.idle_us,
        minutes.idle_0_us,
        minutes.idle_10_us,
        minutes.idle_25_us,
        minutes.activity_us,
        minutes.active_activity_us,
        minutes.throttled_us,
        minutes.graphics_us,
        minutes.utilization_us,
        {{ signal_of_most_time('minutes.covered_us', 'minutes.graphics_us', 'minutes.utilization_us') }} as signal,
        minutes.memory_byte_us / nullif(minutes.memory_us, 0)
            * case when minutes.slot_uuid is null then layouts.slot_fraction else 1.0 end as memory_bytes,
        coalesce(
            minutes.memory_total_bytes * case when minutes.slot_uuid is null then layouts.slot_fraction else 1.0 end,
            layouts.memory_total_bytes
        ) as memory_total_bytes,
        minutes.energy_joules,
        minutes.temperature_celsius,
        minutes.tensor_ratio,
        minutes.dram_ratio,
        minutes.sm_clock_mhz,
        minutes.missing

    from minutes
    inner join layouts
        on
            minutes.cluster = layouts.cluster
            and minutes.gpu_uuid = layouts.gpu_id
            and (
                minutes.slot_uuid = layouts.known_as
                or (minutes.slot_uuid is null and not layouts.is_alias)
            )
            and minutes.bucket_start_at >= layouts.valid_from_at
            and minutes.bucket_start_at < layouts.valid_until_at
    left join stale
        on
            minutes.cluster = stale.cluster
            and minutes.gpu_uuid = stale.gpu_uuid
            and minutes.slot_uuid is not distinct from stale.slot_uuid
            and minutes.source is not distinct from stale.source
            and date_trunc('minute', minutes.told_bucket_start_at) = stale.bucket_start_at

),

several_sources as (

    select slot_number
    from by_slot
    group by slot_number
    having min(source) <> max(source)

),

rivals as (

    select by_slot.*
    from by_slot
    inner join several_sources on by_slot.slot_number = several_sources.slot_number

),

broken_minutes as (

    select distinct
        slot_number,
        date_trunc('minute', bucket_start_at) as minute_start_at

    from rivals
    where bucket_end_at < date_trunc('minute', bucket_start_at) + interval 1 minute
        or bucket_start_at > date_trunc('minute', bucket_start_at)

),

whole_rivals as (

    select
        rivals.*,
        max(rivals.covered_us) over (partition by rivals.slot_number, rivals.bucket_start_at) as best_covered_us

    from rivals
    left join broken_minutes
        on
            rivals.slot_number = broken_minutes.slot_number
            and date_trunc('minute', rivals.bucket_start_at) = broken_minutes.minute_start_at
    where broken_minutes.slot_number is null

),

ranked_rivals as (

    select
        whole_rivals.*,
        {{ source_rank('slot_number, bucket_start_at') }} as source_rank

    from whole_rivals

),

-- a minute in which service changes is several buckets and has one source all the same: what lies out of service does
-- not count
broken_rivals as (

    select
        rivals.slot_number,
        broken_minutes.minute_start_at,
        rivals.source,
        cast(sum(rivals.covered_us) as bigint) as covered_us,
        cast(sum(case when rivals.covered_us > 0 then rivals.graphics_us else 0 end) as bigint) as graphics_us,
        cast(sum(case when rivals.covered_us > 0 then rivals.utilization_us else 0 end) as bigint) as utilization_us

    from rivals
    inner join broken_minutes
        on
            rivals.slot_number = broken_minutes.slot_number
            and date_trunc('minute', rivals.bucket_start_at) = broken_minutes.minute_start_at
    where not exists (
        select 1
        from states
        where
            states.cluster = rivals.cluster
            and states.gpu_id = rivals.gpu_id
            and states.usage_date = rivals.usage_date
            and states.state in ('down', 'maintenance', 'lost')
            and states.started_at < rivals.bucket_end_at
            and states.ended_at > rivals.bucket_start_at
    )
    group by rivals.slot_number, broken_minutes.minute_start_at, rivals.source

),

ranked_broken_rivals as (

    select
        slot_number,
        minute_start_at,
        source,
        {{ source_rank('slot_number, minute_start_at') }} as source_rank

    from (
        select
            broken_rivals.*,
            {{ signal_of_most_time('covered_us', 'graphics_us', 'utilization_us') }} as signal,
            max(covered_us) over (partition by slot_number, minute_start_at) as best_covered_us
        from broken_rivals
    ) as compared

),

chosen as (

    select by_slot.*
    from by_slot
    left join several_sources on by_slot.slot_number = several_sources.slot_number
    where several_sources.slot_number is null

    union all

    select * exclude (best_covered_us, source_rank)
    from ranked_rivals
    where source_rank = 1

    union all

    select rivals.*
    from rivals
    inner join ranked_broken_rivals
        on
            rivals.slot_number = ranked_broken_rivals.slot_number
            and rivals.source = ranked_broken_rivals.source
            and date_trunc('minute', rivals.bucket_start_at) = ranked_broken_rivals.minute_start_at
    where ranked_broken_rivals.source_rank = 1

),

-- power and energy of a partitioned card are repeated on each instance: the card's is the mean of the repeats
card_energy as (

    select
        cluster,
        gpu_id,
        bucket_start_at,
        avg(energy_joules) as energy_joules

    from chosen
    where card_slices > 1
    group by cluster, gpu_id, bucket_start_at

),

priced as (

    select
        chosen.usage_date,
        date_trunc('minute', chosen.bucket_start_at) as minute_start_at,
        chosen.bucket_start_at,
        chosen.bucket_end_at,
        chosen.slot_number,
        chosen.slot_fraction,
        chosen.covered_us,
        case when chosen.covered_us > 0 then chosen.idle_us else 0 end as idle_us,
        case when chosen.covered_us > 0 then chosen.idle_0_us else 0 end as idle_0_us,
        case when chosen.covered_us > 0 then chosen.idle_10_us else 0 end as idle_10_us,
        case when chosen.covered_us > 0 then chosen.idle_25_us else 0 end as idle_25_us,
        case when chosen.covered_us > 0 then chosen.activity_us else 0 end as activity_us,
        case when chosen.covered_us > 0 then chosen.active_activity_us else 0 end as active_activity_us,
        case when chosen.covered_us > 0 then chosen.throttled_us else 0 end as throttled_us,
        case when chosen.covered_us > 0 then chosen.signal end as signal,
        chosen.memory_bytes,
        chosen.memory_total_bytes,
        coalesce(card_energy.energy_joules * chosen.slot_fraction, chosen.energy_joules) as energy_joules,
        chosen.temperature_celsius,
        chosen.tensor_ratio,
        chosen.dram_ratio,
        chosen.sm_clock_mhz,
        case
            when chosen.is_stale then 'stale'
            when chosen.missing is null then 'gap'
            else {{ gap_reason(
                'coalesce('
                ~ json_text('chosen.missing', 'sm_active_ratio') ~ ', '
                ~ json_text('chosen.missing', 'graphics_engine_active_ratio') ~ ', '
                ~ json_text('chosen.missing', 'gpu_utilization_ratio')
                ~ ')'
            ) }}
        end as gap_reason

    from chosen
    left join card_energy
        on
            chosen.cluster = card_energy.cluster
            and chosen.gpu_id = card_energy.gpu_id
            and chosen.bucket_start_at = card_energy.bucket_start_at

)

select * from priced
