-- Under which names usage was told of, day by day: what whose it is is worked out from, for all of history, without reading
-- the rows of all of history again. Kept by the days for which usage landed, since the days to replace depend on it.

{{ config(
    materialized='incremental',
    incremental_strategy='replace_days',
    meta={'days': 'landed', 'landed_table': 'inference_usage'}
) }}

with

usage as (

    select * from {{ ref('stg_landing__inference_usage') }}
    where {{ in_landed_days('inference_usage') }}

),

told as (

    select
        cast(interval_start_at as date) as usage_date,
        cluster,
        job_id,
        namespace,
        workload,
        server,
        min(interval_start_at) as started_at,
        max({{ plus_microseconds('interval_start_at', 'interval_ms * 1000') }}) as ended_at

    from usage
    group by cast(interval_start_at as date), cluster, job_id, namespace, workload, server

)

select * from told
