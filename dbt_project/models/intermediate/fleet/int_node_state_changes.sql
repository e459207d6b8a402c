with

node_states as (

    select * from {{ ref('int_node_states_resolved') }}

),

compared as (

    select
        concat_ws('|', cluster, node, state, cast(started_at as varchar)) as change_key,
        started_at,
        ended_at,
        md5(state) as fingerprint

    from node_states

)

select * from compared
