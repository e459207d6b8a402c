-- What each slot did in each minute of the days this build works on: whole-card readings of a partitioned card speak
-- for all its slots, stale stretches cover nothing, and of two sources the better one is used (semantics 4).

-- (The minutes are no common table expression: used twice, they would be written down in full before either use.)

{{ config(database='scratch') }}

{% set is_in_work = in_partitions('ledger', day='minutes.usage_date') ~ ' and ' ~ in_ledger_minutes('minutes.bucket_start_at') %}

with

series as (

    select * from {{ ref('int_sample_series') }}
    where series_number in (
        select minutes.series_number
        from {{ ref('int_gpu_minutes_clocked') }} as minutes
        where {{ is_in_work }}
    )

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
                    partition by series_number order by bucket_start_at nulls last
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
            partition by series_number
            order by bucket_start_at nulls last
            rows between unbounded preceding and current row
        ) as stretch_number

    from frozen_marked

),

stale as (

    select
        series_number,
        bucket_start_at

    from (
        select
            frozen_numbered.*,
            count(*) over (partition by series_number, stretch_number) as stretch_minutes,
            sum(reading_count) over (partition by series_number, stretch_number) as stretch_readings
        from frozen_numbered
    ) as stretches
    where stretch_minutes >= {{ var('stale_minutes') }} and stretch_readings >= {{ var('stale_readings') }}

),

-- the slots that a series speaks of, and since when; fractions are shared by the slots only where the reading is of the
-- whole card
layouts_of_series as (

    select
        series.series_number,
        layouts.cluster,
        layouts.gpu_id,
        layouts.slot_number,
        layouts.card_slices,
        layouts.slot_fraction,
        case when series.slot_uuid is null then layouts.slot_fraction else 1.0 end as reading_ratio,
        layouts.memory_total_bytes,
        -- one source may speak of a slot by two names
        case when layouts.is_alias then concat_ws(' ', series.source, layouts.known_as) else series.source end as source,
        layouts.valid_from_at,
        layouts.valid_until_at

    from series
    inner join layouts
        on
            series.cluster = layouts.cluster
            and series.gpu_uuid = layouts.gpu_id
            and (
                series.slot_uuid = layouts.known_as
                or (series.slot_uuid is null and not layouts.is_alias)
            )

),

-- slots of which several sources told; most have one, and nothing to choose from
slots_with_rivals as (

    select slot_number
    from layouts_of_series
    group by slot_number
    having min(source) <> max(source)

),

layouts_told as (

    select
        layouts_of_series.*,
        slots_with_rivals.slot_number is not null as has_rivals

    from layouts_of_series
    left join slots_with_rivals on layouts_of_series.slot_number = slots_with_rivals.slot_number

),

-- most cards are whole and told of by one source: nothing is to choose or to share, and nothing is written down before use
{% for name, condition in [
    ('plain', 'not layouts.has_rivals and layouts.card_slices = 1'),
    ('parted', 'not layouts.has_rivals and layouts.card_slices <> 1'),
    ('rivals', 'layouts.has_rivals'),
] -%}
{{ name }} as (

    select
        minutes.usage_date,
        minutes.bucket_start_at,
        minutes.bucket_end_at,
        layouts.cluster,
        layouts.gpu_id,
        layouts.slot_number,
        layouts.card_slices,
        layouts.slot_fraction,
        layouts.source,
        stale.series_number is not null as is_stale,
        case when stale.series_number is null then minutes.covered_us else 0 end as covered_us,
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
        minutes.memory_byte_us / nullif(minutes.memory_us, 0) * layouts.reading_ratio as memory_bytes,
        coalesce(minutes.memory_total_bytes * layouts.reading_ratio, layouts.memory_total_bytes) as memory_total_bytes,
        minutes.energy_joules,
        minutes.temperature_celsius,
        minutes.tensor_ratio,
        minutes.dram_ratio,
        minutes.sm_clock_mhz,
        minutes.missing

    from {{ ref('int_gpu_minutes_clocked') }} as minutes
    inner join layouts_told as layouts
        on
            minutes.series_number = layouts.series_number
            and minutes.bucket_start_at >= layouts.valid_from_at
            and minutes.bucket_start_at < layouts.valid_until_at
    left join stale
        on
            minutes.series_number = stale.series_number
            and date_trunc('minute', minutes.told_bucket_start_at) = stale.bucket_start_at
    where {{ condition }} and {{ is_in_work }}

),

{% endfor -%}
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

    select * from parted

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

told as (

    select * from plain

    union all

    select
        chosen.* replace (
            coalesce(card_energy.energy_joules * chosen.slot_fraction, chosen.energy_joules) as energy_joules
        )

    from chosen
    left join card_energy
        on
            chosen.cluster = card_energy.cluster
            and chosen.gpu_id = card_energy.gpu_id
            and chosen.bucket_start_at = card_energy.bucket_start_at

),

final as (

    select
        usage_date,
        date_trunc('minute', bucket_start_at) as minute_start_at,
        bucket_start_at,
        bucket_end_at,
        slot_number,
        slot_fraction,
        covered_us,
        case when covered_us > 0 then idle_us else 0 end as idle_us,
        case when covered_us > 0 then idle_0_us else 0 end as idle_0_us,
        case when covered_us > 0 then idle_10_us else 0 end as idle_10_us,
        case when covered_us > 0 then idle_25_us else 0 end as idle_25_us,
        case when covered_us > 0 then activity_us else 0 end as activity_us,
        case when covered_us > 0 then active_activity_us else 0 end as active_activity_us,
        case when covered_us > 0 then throttled_us else 0 end as throttled_us,
        case when covered_us > 0 then signal end as signal,
        memory_bytes,
        memory_total_bytes,
        energy_joules,
        temperature_celsius,
        tensor_ratio,
        dram_ratio,
        sm_clock_mhz,
        case
            when is_stale then 'stale'
            when missing is null then 'gap'
            else {{ gap_reason(
                'coalesce('
                ~ json_text('missing', 'sm_active_ratio') ~ ', '
                ~ json_text('missing', 'graphics_engine_active_ratio') ~ ', '
                ~ json_text('missing', 'gpu_utilization_ratio')
                ~ ')'
            ) }}
        end as gap_reason

    from told

)

select * from final
