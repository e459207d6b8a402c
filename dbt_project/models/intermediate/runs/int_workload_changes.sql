-- What workloads are called, for comparison with what their days say: a rule that names them anew touches those days.

with

workloads as (

    select * from {{ ref('dim_workloads') }}

),

compared as (

    select
        workload_id as change_key,
        md5(concat_ws(
            '|',
            workload,
            application,
            team,
            model,
            kind,
            coalesce(cast(latency_target_p95_seconds as varchar), '')
        )) as fingerprint

    from workloads

)

select * from compared
