-- Each holder's part of a slot's spans, numbered, so that minutes carry a number in place of a dozen attributes.

with

spans as (

    select * from {{ ref('int_slot_spans') }}
    where held_share > 0 and not is_out_of_service

),

holds as (

    select * from {{ ref('int_slot_holds') }}

),

runs as (

    select * from {{ ref('int_runs') }}

),

slots as (

    select * from {{ ref('int_slots_numbered') }}

),

shared_out as (

    select
        spans.usage_date,
        spans.cluster,
        spans.node,
        spans.gpu_id,
        spans.gpu_model,
        spans.slot_id,
        holds.run_id,
        spans.started_at,
        spans.ended_at,
        -- shares above 1 in sum are scaled to 1
        sum(holds.share) / greatest(1.0, max(spans.held_share)) as share,
        max(spans.slot_fraction) as slot_fraction

    from spans
    inner join holds
        on
            spans.cluster = holds.cluster
            and spans.slot_id = holds.slot_id
            and spans.usage_date = holds.usage_date
            and holds.started_at <= spans.started_at
            and holds.ended_at >= spans.ended_at
    group by
        spans.usage_date, spans.cluster, spans.node, spans.gpu_id, spans.gpu_model, spans.slot_id, holds.run_id,
        spans.started_at, spans.ended_at

),

numbered as (

    select
        cast(row_number() over (
            order by
                shared_out.cluster nulls last,
                shared_out.slot_id nulls last,
                shared_out.started_at nulls last,
                shared_out.run_id nulls last
        ) as integer) as hold_number,
        cast(dense_rank() over (
            order by shared_out.cluster nulls last, shared_out.slot_id nulls last, shared_out.run_id nulls last
        ) as integer) as slot_run_number,
        cast(dense_rank() over (order by shared_out.run_id nulls last) as integer) as run_number,
        slots.slot_number,
        shared_out.*,
        runs.workload_id,
        runs.kind,
        runs.held_from_at,
        runs.suspended_ratio

    from shared_out
    inner join runs on shared_out.run_id = runs.run_id
    left join slots
        on
            shared_out.cluster = slots.cluster
            and shared_out.gpu_id = slots.gpu_id
            and shared_out.slot_id = slots.slot_id

)

select * from numbered
