-- The rows of inference usage of the days in work, with the workload that each belongs to.

{{ config(database='scratch') }}

with

usage as (

    select * from {{ ref('stg_landing__inference_usage') }}
    where {{ in_partitions('ledger') }}

),

owners as (

    select * from {{ ref('int_usage_servers_owned') }}

),

owned as (

    select
        usage.* replace (coalesce(usage.workload, usage.server) as workload),
        cast(usage.interval_start_at as date) as usage_date,
        {{ plus_microseconds('usage.interval_start_at', 'usage.interval_ms * 1000') }} as interval_end_at,
        owners.workload_id

    from usage
    inner join owners
        on
            usage.cluster = owners.cluster
            and usage.server = owners.server
            and usage.job_id is not distinct from owners.job_id
            and usage.namespace is not distinct from owners.namespace
            and usage.workload is not distinct from owners.workload

)

select * from owned
