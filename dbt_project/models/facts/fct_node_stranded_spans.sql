{{ config(materialized='incremental', incremental_strategy='replace_days') }}

with

node_spans as (

    select * from {{ ref('int_node_stranded_spans') }}
    where {{ in_touched_days('usage_date') }}

),

slots as (

    select * from {{ ref('int_slots_stranded') }}
    where {{ in_touched_days('usage_date') }}

),

free_time as (

    select
        cluster,
        node,
        stranded_from_at,
        cast(sum(us) as double) / 3.6e9 as gpu_hours

    from slots
    group by cluster, node, stranded_from_at

),

-- a node all of whose GPUs are held strands none, however little CPU is left
final as (

    select
        node_spans.usage_date,
        node_spans.cluster,
        node_spans.cluster || '/' || node_spans.node as node_id,
        node_spans.node,
        node_spans.started_at,
        node_spans.ended_at,
        node_spans.lacking,
        cast(node_spans.free_cpu_count as double) as free_cpu_count,
        cast(node_spans.free_memory_bytes as double) as free_memory_bytes,
        cast(node_spans.usual_cpu_count as double) as usual_cpu_count,
        cast(node_spans.usual_memory_bytes as double) as usual_memory_bytes,
        free_time.gpu_hours

    from node_spans
    inner join free_time
        on
            node_spans.cluster = free_time.cluster
            and node_spans.node = free_time.node
            and node_spans.started_at = free_time.stranded_from_at

)

select * from final
