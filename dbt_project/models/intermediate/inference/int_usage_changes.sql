-- Whose the usage is, for each way in which its rows name their owner: a run or a rule that comes later may make it another's.

with

usage as (

    select * from {{ ref('int_inference_usage_owned') }}

),

compared as (

    select
        concat_ws(
            '|',
            cluster,
            coalesce(job_id, ''),
            coalesce(namespace, ''),
            coalesce(workload, ''),
            server
        ) as change_key,
        min(interval_start_at) as started_at,
        max(interval_end_at) as ended_at,
        md5(max(workload_id)) as fingerprint

    from usage
    group by
        cluster,
        coalesce(job_id, ''),
        coalesce(namespace, ''),
        coalesce(workload, ''),
        server

)

select * from compared
