with

pieces as (

    select * from {{ ref('int_unbalanced_spans_clipped') }}

),

spans_numbered as (

    {{ adjoining_spans('pieces', ['cluster', 'slot_id', 'run_id']) }}

),

stitched as (

    select
        slot_id,
        run_id,
        min(started_at) as started_at,
        max(gpu_id) as gpu_id,
        cluster,
        max(workload_id) as workload_id,
        max(ended_at) as ended_at,
        cast(sum(unbalanced_minutes) as bigint) as unbalanced_minutes,
        sum(covered_us) as covered_us,
        sum(activity_us) as activity_us,
        sum(sibling_activity_us) as sibling_activity_us,
        max(sibling_peak_activity_ratio) as sibling_peak_activity_ratio

    from spans_numbered
    group by cluster, slot_id, run_id, span_number

),

final as (

    select
        slot_id,
        run_id,
        started_at,
        gpu_id,
        cluster,
        workload_id,
        ended_at,
        unbalanced_minutes,
        activity_us / nullif(covered_us, 0) as activity_ratio,
        sibling_activity_us / nullif(covered_us, 0) as sibling_activity_ratio,
        sibling_peak_activity_ratio,
        (covered_us - activity_us) / 3.6e9 as unbalanced_gpu_hours

    from stitched

)

select * from final
