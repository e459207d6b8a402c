{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

-- To which workload each request of a gateway's log belongs. A gateway knows workloads by name; without a name a
-- request belongs to the only workload that serves its model that day.

with

requests as (

    select * from {{ ref('stg_landing__inference_requests') }}
    where {{ in_partitions('touched') }} and {{ in_touched_days('cast(started_at as date)') }}

),

workloads as (

    select * from {{ ref('dim_workloads') }}

),

usage_hours as (

    select * from {{ ref('int_inference_usage_hourly') }}
    where {{ in_touched_days('usage_date') }}

),

-- of several workloads of one name the one that serves; the lowest id is as good a choice as any, and always the same
workload_names as (

    select
        cluster,
        workload,
        coalesce(min(case when kind = 'inference' then workload_id end), min(workload_id)) as workload_id

    from workloads
    group by cluster, workload

),

model_servers as (

    select
        usage_date,
        cluster,
        model,
        min(workload_id) as workload_id

    from usage_hours
    where workload_id <> 'unknown'
    group by usage_date, cluster, model
    having count(distinct workload_id) = 1

),

assigned as (

    select
        date_trunc('hour', requests.started_at) as hour_start_at,
        cast(requests.started_at as date) as usage_date,
        requests.cluster,
        requests.model,
        case
            when nullif(trim(requests.workload), '') is not null then coalesce(workload_names.workload_id, 'unknown')
            else coalesce(model_servers.workload_id, 'unknown')
        end as workload_id,
        nullif(trim(requests.application), '') as application,
        nullif(trim(requests.team), '') as team,
        nullif(trim(requests.adapter), '') as adapter,
        requests.prompt_tokens,
        requests.cached_prompt_tokens,
        coalesce(requests.prompt_includes_cached, true) as prompt_includes_cached,
        requests.output_tokens,
        requests.latency_ms,
        requests.started_at,
        {{ is_failed_status('requests.status') }} as is_failed

    from requests
    left join workload_names
        on requests.cluster = workload_names.cluster and trim(requests.workload) = workload_names.workload
    left join model_servers
        on
            requests.cluster = model_servers.cluster
            and requests.model = model_servers.model
            and cast(requests.started_at as date) = model_servers.usage_date

)

select * from assigned
