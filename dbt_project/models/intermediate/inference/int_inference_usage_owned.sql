-- Which workload a row of inference usage belongs to (semantics 8): that of its job_id, else of workload + namespace,
-- else of its server: the run of that name, or a workload of its own.

with

usage as (

    select * from {{ ref('stg_landing__inference_usage') }}

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

servers as (

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
        usage.*,
        cast(usage.interval_start_at as date) as usage_date,
        {{ plus_microseconds('usage.interval_start_at', 'usage.interval_ms * 1000') }} as interval_end_at,
        coalesce(
            jobs.workload_id,
            case
                when usage.workload is not null
                    then usage.cluster || '/' || coalesce(
                        nullif(usage.namespace, ''),
                        -- a usage row that leaves the namespace out means the only one there is
                        case when services.namespace_count = 1 then services.namespace end,
                        '-'
                    ) || '/' || usage.workload
            end,
            servers.workload_id,
            usage.cluster || '/' || coalesce(nullif(usage.namespace, ''), '-') || '/' || usage.server
        ) as workload_id

    from usage
    left join jobs on usage.cluster = jobs.cluster and usage.job_id = jobs.job_id
    left join servers
        on usage.cluster = servers.cluster and regexp_replace(usage.server, ':[0-9]+$', '') = servers.name
    left join services on usage.cluster = services.cluster and usage.workload = services.workload

)

select
    * replace (coalesce(workload, server) as workload)

from owned
