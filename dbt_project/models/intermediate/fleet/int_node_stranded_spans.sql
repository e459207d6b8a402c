-- When a node lacks CPU or memory for one more GPU job: less of either is left than the usual job of any partition it
-- serves takes per GPU (semantics 5, rule 2). A node whose size is not known, or for whose partitions no usual job is
-- known, lacks nothing.

with

queue_nodes as (

    select * from {{ ref('int_queue_nodes') }}

),

usual_jobs as (

    select * from {{ ref('int_queue_usual_jobs') }}

),

-- a run that the scheduler never closed is over where the next holder of its devices begins
runaways as (

    select
        run_id,
        max(ended_at) as ended_at

    from {{ ref('int_holds_exact') }}
    where flag = 'runaway'
    group by run_id

),

known_loads as (

    select
        node_loads.* exclude (ended_at),
        least(node_loads.ended_at, coalesce(runaways.ended_at, node_loads.ended_at)) as ended_at

    from {{ ref('int_node_loads') }} as node_loads
    left join runaways on node_loads.run_id = runaways.run_id

),

loads as (

    select
        known_loads.*,
        {{ each_touched('day', 'started_at', 'ended_at') }} as day_start_at

    from known_loads

),

-- jobs of one size ask the same of a node, whatever their partitions
needs as (

    select distinct
        queue_nodes.cluster,
        queue_nodes.node,
        queue_nodes.usage_date,
        queue_nodes.cpu_count as node_cpu_count,
        queue_nodes.memory_bytes as node_memory_bytes,
        usual_jobs.cpu_count as usual_cpu_count,
        usual_jobs.memory_bytes as usual_memory_bytes

    from queue_nodes
    inner join usual_jobs
        on
            queue_nodes.cluster = usual_jobs.cluster
            and queue_nodes.queue = usual_jobs.queue
            and queue_nodes.usage_date = usual_jobs.usage_date
    where queue_nodes.cpu_count is not null or queue_nodes.memory_bytes is not null

),

needing_nodes as (

    select distinct
        cluster,
        node,
        usage_date

    from needs

),

changes as (

    select
        cluster,
        node,
        usage_date,
        cast(usage_date as timestamp) as changed_at,
        0.0 as cpu_count,
        0.0 as memory_bytes

    from needing_nodes

    union all

    select
        cluster,
        node,
        cast(day_start_at as date) as usage_date,
        greatest(started_at, day_start_at) as changed_at,
        coalesce(cpu_count, 0.0) as cpu_count,
        coalesce(memory_bytes, 0.0) as memory_bytes

    from loads
    where {{ in_ledger_days('cast(day_start_at as date)') }}

    union all

    select
        cluster,
        node,
        cast(day_start_at as date) as usage_date,
        ended_at as changed_at,
        -coalesce(cpu_count, 0.0) as cpu_count,
        -coalesce(memory_bytes, 0.0) as memory_bytes

    from loads
    where {{ in_ledger_days('cast(day_start_at as date)') }} and ended_at < day_start_at + interval 1 day

),

changes_summed as (

    select
        cluster,
        node,
        usage_date,
        changed_at,
        sum(cpu_count) as cpu_count,
        sum(memory_bytes) as memory_bytes

    from changes
    group by cluster, node, usage_date, changed_at

),

taken as (

    select
        cluster,
        node,
        usage_date,
        changed_at as started_at,
        coalesce(
            lead(changed_at) over (partition by cluster, node, usage_date order by changed_at nulls last),
            cast(usage_date + 1 as timestamp)
        ) as ended_at,
        sum(cpu_count) over (
            partition by cluster, node, usage_date
            order by changed_at nulls last
            rows between unbounded preceding and current row
        ) as cpu_count,
        sum(memory_bytes) over (
            partition by cluster, node, usage_date
            order by changed_at nulls last
            rows between unbounded preceding and current row
        ) as memory_bytes

    from changes_summed

),

-- rounded, because a third and two thirds of a run's CPUs must add up to all of them
compared as (

    select
        taken.cluster,
        taken.node,
        taken.usage_date,
        taken.started_at,
        taken.ended_at,
        needs.node_cpu_count - round(taken.cpu_count, 6) as free_cpu_count,
        needs.node_memory_bytes - round(taken.memory_bytes) as free_memory_bytes,
        needs.usual_cpu_count,
        needs.usual_memory_bytes,
        coalesce(needs.node_cpu_count - round(taken.cpu_count, 6) < round(needs.usual_cpu_count, 6), false) as lacks_cpu,
        coalesce(needs.node_memory_bytes - round(taken.memory_bytes) < round(needs.usual_memory_bytes), false) as lacks_memory

    from taken
    inner join needs
        on taken.cluster = needs.cluster and taken.node = needs.node and taken.usage_date = needs.usage_date

),

judged as (

    select
        cluster,
        node,
        usage_date,
        started_at,
        ended_at,
        min(free_cpu_count) as free_cpu_count,
        min(free_memory_bytes) as free_memory_bytes,
        min(usual_cpu_count) as usual_cpu_count,
        min(usual_memory_bytes) as usual_memory_bytes,
        case
            when bool_and(lacks_cpu) and bool_and(lacks_memory) then 'cpu_and_memory'
            when bool_and(lacks_cpu) then 'cpu'
            when bool_and(lacks_memory) then 'memory'
            else 'cpu_or_memory'
        end as lacking

    from compared
    group by cluster, node, usage_date, started_at, ended_at
    having bool_and(lacks_cpu or lacks_memory)

),

spans_numbered as (

    {{ adjoining_spans('judged', ['cluster', 'node', 'usage_date', 'lacking']) }}

),

spans as (

    select
        cluster,
        node,
        usage_date,
        min(started_at) as started_at,
        max(ended_at) as ended_at,
        lacking,
        min(free_cpu_count) as free_cpu_count,
        min(free_memory_bytes) as free_memory_bytes,
        min(usual_cpu_count) as usual_cpu_count,
        min(usual_memory_bytes) as usual_memory_bytes

    from spans_numbered
    group by cluster, node, usage_date, lacking, span_number

)

select * from spans
