-- What each run takes of its nodes besides GPUs: its CPUs and memory, spread evenly over them. Runs without a GPU too,
-- because they take what the next GPU job would need.

with

runs as (

    select * from {{ ref('int_runs_named') }}
    where held_from_at < held_until_at and (cpu_count is not null or memory_bytes is not null)

),

claims as (

    select * from {{ ref('int_holds_claimed') }}

),

nodes as (

    select * from {{ ref('stg_landing__nodes') }}

),

inventory as (

    select * from {{ ref('int_gpu_inventory_changes') }}

),

-- nodes that have no GPU have nothing to strand
gpu_nodes as (

    select
        cluster,
        node

    from nodes
    where coalesce(gpu_count, 1) > 0

    union

    select
        cluster,
        node

    from inventory

),

listed as (

    select
        run_id,
        {{ each_item('node_list') }} as node

    from runs
    where coalesce(node_list, '') <> ''

),

claimed as (

    select distinct
        claims.run_id,
        claims.node

    from claims
    inner join runs on claims.run_id = runs.run_id
    where coalesce(runs.node_list, '') = ''

),

placed as (

    select * from listed
    union all
    select * from claimed

),

counted as (

    select
        placed.*,
        count(*) over (partition by placed.run_id) as node_count

    from placed

),

spread as (

    select
        runs.cluster,
        counted.node,
        runs.run_id,
        runs.held_from_at as started_at,
        runs.held_until_at as ended_at,
        cast(runs.cpu_count as double) / counted.node_count as cpu_count,
        cast(runs.memory_bytes as double) / counted.node_count as memory_bytes

    from counted
    inner join runs on counted.run_id = runs.run_id
    inner join gpu_nodes on runs.cluster = gpu_nodes.cluster and counted.node = gpu_nodes.node

)

select * from spread
