-- The promise of semantics 5 on idle spans: each minute of a span was held by its run, and a span's minutes are its
-- length. Promised is the time that the spans of a day say, measured how much of it the run's holds of that slot cover.
-- A span that does not hold keeps the build from being published: its idleness is charged to a run that held nothing.

{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

with

idle_spans as (

    select * from {{ ref('fct_gpu_idle_spans') }}

),

held_spans as (

    select * from {{ ref('int_held_spans') }}
    where {{ in_touched_days('usage_date') }}

),

span_days as (

    select
        idle_spans.*,
        {{ each_touched('day', 'idle_spans.started_at', 'idle_spans.ended_at') }} as day_start_at

    from idle_spans

),

clipped as (

    select
        cast(day_start_at as date) as usage_date,
        cluster,
        slot_id,
        run_id,
        started_at as span_started_at,
        greatest(started_at, day_start_at) as started_at,
        least(ended_at, day_start_at + interval 1 day) as ended_at,
        idle_minutes * 60000000 <> {{ microseconds_between('started_at', 'ended_at') }}
        or idle_minutes < {{ var('idle_span_minutes') }} as is_miscounted

    from span_days
    where {{ in_touched_days('cast(day_start_at as date)') }}

),

-- a minute that is held in part is a minute of the span: holds count by the minutes they touch
held as (

    select
        clipped.usage_date,
        clipped.cluster,
        clipped.slot_id,
        clipped.run_id,
        clipped.span_started_at,
        sum(
            {{ microseconds_between(
                'greatest(clipped.started_at, held_spans.started_at)', 'least(clipped.ended_at, held_spans.ended_at)'
            ) }}
        ) as held_us,
        count(*) as piece_count

    from clipped
    inner join held_spans
        on
            clipped.usage_date = held_spans.usage_date
            and clipped.cluster = held_spans.cluster
            and clipped.slot_id = held_spans.slot_id
            and clipped.run_id = held_spans.run_id
            and held_spans.started_at < clipped.ended_at
            and held_spans.ended_at > clipped.started_at
    group by clipped.usage_date, clipped.cluster, clipped.slot_id, clipped.run_id, clipped.span_started_at

),

compared as (

    select
        clipped.usage_date,
        clipped.cluster,
        clipped.is_miscounted,
        {{ microseconds_between('clipped.started_at', 'clipped.ended_at') }} as span_us,
        coalesce(held.held_us, 0) as held_us,
        coalesce(held.piece_count, 0) as piece_count

    from clipped
    left join held
        on
            clipped.usage_date = held.usage_date
            and clipped.cluster = held.cluster
            and clipped.slot_id = held.slot_id
            and clipped.run_id = held.run_id
            and clipped.span_started_at = held.span_started_at

),

audited as (

    select
        usage_date,
        cluster,
        cast(sum(span_us) as bigint) as promised,
        cast(sum(held_us) as bigint) as measured,
        cast(sum(held_us) - sum(span_us) as bigint) as difference,
        -- at either edge of each piece up to a minute is held in part
        count(
            case when held_us > span_us or held_us < span_us - 2 * 60000000 * piece_count or piece_count = 0 then 1 end
        ) as spans_not_held,
        count(case when is_miscounted then 1 end) as spans_miscounted

    from compared
    group by usage_date, cluster

),

final as (

    select
        audited.*,
        spans_not_held = 0 and spans_miscounted = 0 as holds

    from audited

)

select * from final
