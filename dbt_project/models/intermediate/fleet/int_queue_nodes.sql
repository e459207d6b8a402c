-- Which nodes serve which queue, by day. A node serves the partitions it was seen in; one of which no partition is known
-- serves every queue of its cluster, and a run whose queue is not known may have asked for any node.

with

states as (

    select * from {{ ref('int_gpu_state_spans') }}
    where {{ in_ledger_days('usage_date') }}

),

sizes as (

    select * from {{ ref('int_node_sizes') }}

),

runs as (

    select * from {{ ref('int_runs_named') }}
    where gpu_count > 0 and held_from_at < held_until_at

),

waits as (

    select * from {{ ref('int_run_waits') }}

),

node_days as (

    select
        states.cluster,
        states.node,
        states.usage_date,
        max(sizes.cpu_count) as cpu_count,
        max(sizes.memory_bytes) as memory_bytes,
        max(sizes.partitions) as partitions

    from states
    left join sizes
        on
            states.cluster = sizes.cluster
            and states.node = sizes.node
            and states.usage_date >= sizes.valid_from_date
            and states.usage_date < sizes.valid_until_date
    group by states.cluster, states.node, states.usage_date

),

asked as (

    select
        cluster,
        queue,
        cast({{ each_touched('day', 'held_from_at', 'held_until_at') }} as date) as usage_date

    from runs

    union

    select
        cluster,
        queue,
        cast({{ each_touched('day', 'started_at', 'ended_at') }} as date) as usage_date

    from waits
    where started_at < ended_at

),

node_partitions as (

    select
        node_days.*,
        {{ each_item('partitions') }} as queue

    from node_days
    where partitions is not null

),

-- a job may wait for the first of several partitions
queue_partitions as (

    select
        asked.*,
        {{ each_item('queue') }} as queue_part

    from asked

),

serving as (

    select
        cluster,
        queue,
        node,
        usage_date,
        cpu_count,
        memory_bytes

    from node_partitions

    union

    select
        node_partitions.cluster,
        queue_partitions.queue,
        node_partitions.node,
        node_partitions.usage_date,
        node_partitions.cpu_count,
        node_partitions.memory_bytes

    from node_partitions
    inner join queue_partitions
        on
            node_partitions.cluster = queue_partitions.cluster
            and node_partitions.usage_date = queue_partitions.usage_date
            and node_partitions.queue = queue_partitions.queue_part

    union

    select
        node_days.cluster,
        asked.queue,
        node_days.node,
        node_days.usage_date,
        node_days.cpu_count,
        node_days.memory_bytes

    from node_days
    inner join asked
        on
            node_days.cluster = asked.cluster
            and node_days.usage_date = asked.usage_date
            and (node_days.partitions is null or asked.queue = 'unknown')

)

select * from serving
