-- Workloads that inference telemetry or a gateway names. One whose runs no scheduler told us of is a workload all the
-- same: its tokens have an owner.

with

usage as (

    select * from {{ ref('stg_landing__inference_usage') }}

),

requests as (

    select * from {{ ref('stg_landing__inference_requests') }}

),

runs as (

    select distinct
        cluster,
        workload

    from {{ ref('int_runs_named') }}

),

usage_named as (

    select
        cluster,
        coalesce(nullif(trim(namespace), ''), '-') as namespace,
        trim(workload) as workload,
        cast(null as varchar) as application,
        cast(null as varchar) as team,
        model

    from usage
    where trim(workload) <> '' and job_id is null

),

-- a gateway knows no namespaces: a name that no run and no server has is a workload without one
usage_names as (

    select distinct
        cluster,
        workload

    from usage_named

),

requests_named as (

    select
        requests.cluster,
        '-' as namespace,
        trim(requests.workload) as workload,
        requests.application,
        requests.team,
        requests.model

    from requests
    left join runs on requests.cluster = runs.cluster and trim(requests.workload) = runs.workload
    left join usage_names on requests.cluster = usage_names.cluster and trim(requests.workload) = usage_names.workload
    where trim(requests.workload) <> '' and runs.workload is null and usage_names.workload is null

),

both_named as (

    select * from usage_named
    union all
    select * from requests_named

),

final as (

    select
        concat(cluster, '/', namespace, '/', workload) as workload_id,
        cluster,
        namespace,
        workload,
        coalesce(min(application), 'unknown') as application,
        coalesce(min(team), 'unknown') as team,
        case when count(distinct model) = 1 then min(model) else 'unknown' end as model

    from both_named
    group by cluster, namespace, workload

)

select * from final
