{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

-- Which run answered a request whose log names no workload that is known (an offline job's own log): the run of the job
-- id, else that which at the time bore the name given as workload, else that of the pod or server, else the only workload
-- that held GPUs of the node, else the only one of the model that held any. What leaves a choice tells nothing.

with

requests as (

    select
        *,
        cast(started_at as date) as usage_date

    from {{ ref('stg_landing__inference_requests') }}
    where {{ in_touched_days('cast(started_at as date)') }}

),

runs as (

    select * from {{ ref('int_runs') }}
    where held_from_at < held_until_at

),

known_as as (

    select * from {{ ref('int_runs_known_as') }}

),

claims as (

    select * from {{ ref('int_holds_claimed') }}

),

workload_names as (

    select distinct
        cluster,
        workload

    from {{ ref('dim_workloads') }}

),

-- a workload's name says whose the request is, unless a job id says it more exactly
open_requests as (

    select
        requests.cluster,
        requests.request_id,
        requests.started_at,
        requests.usage_date,
        requests.model,
        nullif(trim(requests.job_id), '') as job_id,
        nullif(trim(requests.workload), '') as workload,
        nullif(regexp_replace(trim(requests.server), ':[0-9]+$', ''), '') as server,
        nullif(trim(requests.node), '') as node

    from requests
    left join workload_names
        on requests.cluster = workload_names.cluster and trim(requests.workload) = workload_names.workload
    where nullif(trim(requests.job_id), '') is not null or workload_names.workload is null

),

names_told as (

    select cluster, request_id, started_at, usage_date, 'job' as told_by, 1 as told_order, job_id as known_as
    from open_requests
    where job_id is not null

    union all

    select cluster, request_id, started_at, usage_date, 'name' as told_by, 2 as told_order, workload as known_as
    from open_requests
    where workload is not null

    union all

    select cluster, request_id, started_at, usage_date, 'name' as told_by, 3 as told_order, server as known_as
    from open_requests
    where server is not null

),

names_of_runs as (

    select
        cluster,
        'job' as told_by,
        known_as,
        run_id

    from known_as

    union all

    select
        cluster,
        'name' as told_by,
        name as known_as,
        run_id

    from runs
    where name is not null

),

-- a log is written a little after its job has ended, and an id is used again years later: the attempt that began last
of_runs as (

    select
        names_told.cluster,
        names_told.request_id,
        names_told.started_at,
        names_told.usage_date,
        names_told.told_by,
        names_told.told_order,
        runs.workload_id,
        row_number() over (
            partition by names_told.cluster, names_told.request_id, names_told.started_at
            order by names_told.told_order nulls last, runs.held_from_at desc nulls last, runs.run_id nulls last
        ) as run_rank

    from names_told
    inner join names_of_runs
        on
            names_told.cluster = names_of_runs.cluster
            and names_told.told_by = names_of_runs.told_by
            and names_told.known_as = names_of_runs.known_as
    inner join runs
        on
            names_of_runs.run_id = runs.run_id
            and names_told.started_at >= runs.held_from_at
            and names_told.started_at < runs.held_until_at + interval 1 hour

),

by_run as (

    select * from of_runs
    where run_rank = 1

),

unnamed as (

    select
        open_requests.*,
        date_trunc('minute', open_requests.started_at) as minute_start_at

    from open_requests
    left join by_run
        on
            open_requests.cluster = by_run.cluster
            and open_requests.request_id = by_run.request_id
            and open_requests.started_at = by_run.started_at
    where by_run.workload_id is null and open_requests.workload is null

),

-- who held is asked once a minute, not once for each of a million requests
node_minutes as (

    select distinct
        cluster,
        node,
        minute_start_at

    from unnamed
    where node is not null

),

on_node as (

    select
        node_minutes.cluster,
        node_minutes.node,
        node_minutes.minute_start_at,
        min(runs.workload_id) as workload_id

    from node_minutes
    inner join claims
        on
            node_minutes.cluster = claims.cluster
            and node_minutes.node = claims.node
            and node_minutes.minute_start_at + interval 1 minute > claims.started_at
            and node_minutes.minute_start_at < claims.ended_at
    inner join runs on claims.run_id = runs.run_id
    group by node_minutes.cluster, node_minutes.node, node_minutes.minute_start_at
    having count(distinct runs.workload_id) = 1

),

model_minutes as (

    select distinct
        cluster,
        model,
        minute_start_at

    from unnamed
    where model <> 'unknown'

),

of_model as (

    select
        model_minutes.cluster,
        model_minutes.model,
        model_minutes.minute_start_at,
        min(runs.workload_id) as workload_id

    from model_minutes
    inner join runs
        on
            model_minutes.cluster = runs.cluster
            and model_minutes.model = runs.model
            and model_minutes.minute_start_at + interval 1 minute > runs.held_from_at
            and model_minutes.minute_start_at < runs.held_until_at
    group by model_minutes.cluster, model_minutes.model, model_minutes.minute_start_at
    having count(distinct runs.workload_id) = 1

),

placed as (

    select
        unnamed.cluster,
        unnamed.request_id,
        unnamed.started_at,
        unnamed.usage_date,
        case when on_node.workload_id is not null then 'node' else 'model' end as told_by,
        coalesce(on_node.workload_id, of_model.workload_id) as workload_id

    from unnamed
    left join on_node
        on
            unnamed.cluster = on_node.cluster
            and unnamed.node = on_node.node
            and unnamed.minute_start_at = on_node.minute_start_at
    left join of_model
        on
            unnamed.cluster = of_model.cluster
            and unnamed.model = of_model.model
            and unnamed.minute_start_at = of_model.minute_start_at
    where coalesce(on_node.workload_id, of_model.workload_id) is not null

),

traced as (

    select cluster, request_id, started_at, usage_date, told_by, workload_id
    from by_run

    union all

    select cluster, request_id, started_at, usage_date, told_by, workload_id
    from placed

)

select * from traced
