{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

-- To which workload each source of inference usage belongs, hour by hour: the workload of its job_id, else of its
-- workload and namespace, else of its server: the run of that name, else the only holder of its node in the hour.
-- What none of these tells belongs to `unknown`, and its tokens are still counted.

with

usage as (

    select * from {{ ref('stg_landing__inference_usage') }}
    where {{ in_touched_days('cast(interval_start_at as date)') }}

),

runs as (

    select * from {{ ref('int_runs') }}

),

workloads as (

    select * from {{ ref('dim_workloads') }}

),

ledger as (

    select * from {{ ref('int_gpu_ledger_hours') }}
    where {{ in_touched_days('usage_date') }}

),

sources as (

    select distinct
        {{ usage_source_key() }} as source_key,
        date_trunc('hour', interval_start_at) as hour_start_at,
        cluster,
        server,
        split_part(server, ':', 1) as host,
        node,
        job_id,
        coalesce(nullif(trim(namespace), ''), '-') as namespace,
        nullif(trim(workload), '') as workload

    from usage

),

jobs_ranked as (

    select
        cluster,
        job_id,
        workload_id,
        row_number() over (
            partition by cluster, job_id
            order by started_at desc nulls last, run_id desc nulls last
        ) as run_rank

    from runs

),

jobs as (

    select * from jobs_ranked
    where run_rank = 1

),

-- a name without its namespace speaks for itself where only one workload has it
workload_names as (

    select
        cluster,
        workload,
        min(workload_id) as workload_id

    from workloads
    group by cluster, workload
    having count(*) = 1

),

run_names as (

    select
        cluster,
        name,
        min(workload_id) as workload_id

    from runs
    where name is not null
    group by cluster, name
    having count(distinct workload_id) = 1

),

node_holders as (

    select
        hour_start_at,
        cluster,
        node,
        min(workload_id) as workload_id

    from ledger
    where run_id <> 'unallocated'
    group by hour_start_at, cluster, node
    having count(distinct workload_id) = 1

),

assigned as (

    select
        sources.source_key,
        sources.hour_start_at,
        cast(sources.hour_start_at as date) as usage_date,
        sources.cluster,
        sources.server,
        jobs.workload_id as job_workload_id,
        case when sources.workload is not null then coalesce(named.workload_id, workload_names.workload_id) end as named_workload_id,
        coalesce(
            pod_runs.workload_id, host_runs.workload_id, host_workloads.workload_id, node_holders.workload_id,
            host_holders.workload_id
        ) as server_workload_id

    from sources
    left join jobs on sources.cluster = jobs.cluster and sources.job_id = jobs.job_id
    left join workloads as named
        on
            sources.cluster = named.cluster
            and sources.namespace = named.namespace
            and sources.workload = named.workload
    left join workload_names
        on
            sources.cluster = workload_names.cluster
            and sources.workload = workload_names.workload
            and sources.namespace = '-'
    left join run_names as pod_runs on sources.cluster = pod_runs.cluster and sources.server = pod_runs.name
    left join run_names as host_runs on sources.cluster = host_runs.cluster and sources.host = host_runs.name
    left join workload_names as host_workloads
        on sources.cluster = host_workloads.cluster and sources.host = host_workloads.workload
    left join node_holders
        on
            sources.cluster = node_holders.cluster
            and sources.node = node_holders.node
            and sources.hour_start_at = node_holders.hour_start_at
    left join node_holders as host_holders
        on
            sources.cluster = host_holders.cluster
            and sources.host = host_holders.node
            and sources.hour_start_at = host_holders.hour_start_at

),

final as (

    select
        source_key,
        hour_start_at,
        usage_date,
        cluster,
        server,
        coalesce(job_workload_id, named_workload_id, server_workload_id, 'unknown') as workload_id,
        case
            when job_workload_id is not null then 'job'
            when named_workload_id is not null then 'workload'
            when server_workload_id is not null then 'server'
            else 'unknown'
        end as assigned_by

    from assigned

)

select * from final
