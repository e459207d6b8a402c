with

gpus as (

    select * from {{ ref('dim_gpus') }}

),

nodes as (

    select * from {{ ref('dim_nodes') }}

),

runs as (

    select * from {{ ref('dim_runs') }}

),

workloads as (

    select * from {{ ref('dim_workloads') }}

),

-- a log of an inference server or a list of prices may be all that came of a cluster
inference as (

    select * from {{ ref('fct_inference_hourly') }}

),

collection_runs as (

    select * from {{ ref('fct_collection_runs') }}

),

-- each thing we know of names its cluster; the two special members stand for none and for one we were not told
named as (

    select cluster from gpus
    union
    select cluster from nodes
    union
    select cluster from runs
    union
    select cluster from workloads
    union
    select cluster from inference
    union
    select cluster from collection_runs
    union
    select 'unallocated' as cluster
    union
    select 'unknown' as cluster

),

gpus_counted as (

    select
        cluster,
        count(*) as gpu_count,
        min(first_seen_at) as first_seen_at,
        max(last_seen_at) as last_seen_at

    from gpus
    group by cluster

),

nodes_counted as (

    select
        cluster,
        count(*) as node_count

    from nodes
    group by cluster

),

runs_counted as (

    select
        cluster,
        count(*) as run_count

    from runs
    group by cluster

),

final as (

    select
        named.cluster,
        named.cluster in ('unallocated', 'unknown') as is_special,
        coalesce(nodes_counted.node_count, 0) as node_count,
        coalesce(gpus_counted.gpu_count, 0) as gpu_count,
        coalesce(runs_counted.run_count, 0) as run_count,
        gpus_counted.first_seen_at,
        gpus_counted.last_seen_at

    from named
    left join gpus_counted
        on named.cluster = gpus_counted.cluster
    left join nodes_counted
        on named.cluster = nodes_counted.cluster
    left join runs_counted
        on named.cluster = runs_counted.cluster
    where named.cluster is not null

)

select * from final
