-- Whose the usage is, for each way in which its rows name their owner: a run or a rule that comes later may make it another's.

with

owners as (

    select * from {{ ref('int_usage_servers_owned') }}

),

compared as (

    select
        concat_ws(
            '|',
            cluster,
            coalesce(job_id, ''),
            coalesce(namespace, ''),
            coalesce(workload, server),
            server
        ) as change_key,
        min(started_at) as started_at,
        max(ended_at) as ended_at,
        md5(max(workload_id)) as fingerprint

    from owners
    group by
        cluster,
        coalesce(job_id, ''),
        coalesce(namespace, ''),
        coalesce(workload, server),
        server

)

select * from compared
