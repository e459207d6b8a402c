-- A state without an end lasts until the node's next state begins, else to where the cluster's scheduler is known to.

with

node_states as (

    select * from {{ ref('stg_landing__node_states') }}

),

data_through as (

    select
        cluster,
        max(case when table_group = 'scheduler' then data_through_at end) as scheduler_through_at

    from {{ source('control', 'data_through') }}
    group by cluster

),

followed as (

    select
        node_states.*,
        lead(started_at) over (
            partition by cluster, node
            order by started_at nulls last, landed_at nulls last, line_number nulls last
        ) as next_started_at

    from node_states

),

resolved as (

    select
        followed.cluster,
        followed.node,
        followed.state,
        followed.reason,
        followed.started_at,
        coalesce(
            followed.ended_at, followed.next_started_at, greatest(data_through.scheduler_through_at, followed.started_at)
        ) as ended_at

    from followed
    left join data_through on followed.cluster = data_through.cluster

)

select * from resolved
where started_at < ended_at
