{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

-- To which workload each request of a log belongs. A job id comes first; a gateway knows workloads by name; without
-- one a request is traced to a run by what else it names, else belongs to the only workload whose servers' counters tell
-- of its model that day, else to the only workload of that model that held GPUs.

with

requests as (

    select * from {{ ref('stg_landing__inference_requests') }}
    where {{ in_partitions('touched') }} and {{ in_touched_days('cast(started_at as date)') }}

),

workloads as (

    select * from {{ ref('dim_workloads') }}

),

traced as (

    select * from {{ ref('int_inference_requests_traced') }}
    where {{ in_touched_days('usage_date') }}

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
        coalesce(
            case when traced.told_by = 'job' then traced.workload_id end,
            workload_names.workload_id,
            case when traced.told_by <> 'model' then traced.workload_id end,
            case when nullif(trim(requests.workload), '') is null then model_servers.workload_id end,
            traced.workload_id,
            'unknown'
        ) as workload_id,
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
    left join traced
        on
            requests.cluster = traced.cluster
            and requests.request_id = traced.request_id
            and requests.started_at = traced.started_at
    left join model_servers
        on
            requests.cluster = model_servers.cluster
            and requests.model = model_servers.model
            and cast(requests.started_at as date) = model_servers.usage_date

)

select * from assigned
