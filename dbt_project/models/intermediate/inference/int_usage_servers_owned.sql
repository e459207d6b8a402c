-- Which workload inference usage belongs to (semantics 8), by what its rows say: that of its job_id, else of workload +
-- namespace, else of its server: the run of that name, or a workload of its own.

with

servers as (

    select
        cluster,
        job_id,
        namespace,
        workload,
        server,
        min(started_at) as started_at,
        max(ended_at) as ended_at

    from {{ ref('int_usage_servers_daily') }}
    group by cluster, job_id, namespace, workload, server

),

runs as (

    select * from {{ ref('int_runs') }}

),

jobs as (

    select
        cluster,
        job_id,
        max_by(workload_id, coalesce(started_at, submitted_at)) as workload_id

    from runs
    group by cluster, job_id

),

names as (

    select
        cluster,
        name,
        max_by(workload_id, coalesce(started_at, submitted_at)) as workload_id

    from runs
    where coalesce(name, '') <> ''
    group by cluster, name

),

services as (

    select
        cluster,
        workload,
        min(namespace) as namespace,
        count(distinct namespace) as namespace_count

    from runs
    group by cluster, workload

),

owned as (

    select
        servers.*,
        coalesce(
            jobs.workload_id,
            case
                when servers.workload is not null
                    then servers.cluster || '/' || coalesce(
                        nullif(servers.namespace, ''),
                        -- a usage row that leaves the namespace out means the only one there is
                        case when services.namespace_count = 1 then services.namespace end,
                        '-'
                    ) || '/' || servers.workload
            end,
            names.workload_id,
            servers.cluster || '/' || coalesce(nullif(servers.namespace, ''), '-') || '/' || servers.server
        ) as workload_id

    from servers
    left join jobs on servers.cluster = jobs.cluster and servers.job_id = jobs.job_id
    left join names
        on servers.cluster = names.cluster and regexp_replace(servers.server, ':[0-9]+$', '') = names.name
    left join services on servers.cluster = services.cluster and servers.workload = services.workload

)

select * from owned
