{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

-- Rows of the tables whose rows touch the days they lie in, so that only those days are counted again.

with

outcomes as (

    select * from {{ source('control', 'collection_runs') }}

),

landings as (

    select
        collection_run_id,
        max(source) as source

    from outcomes
    group by collection_run_id

),

{% for table in ['gpu_inventory', 'gpu_processes', 'node_samples', 'inference_usage', 'inference_requests'] -%}
{{ table }}_counted as (

    select
        dt,
        cluster,
        collection_run_id,
        '{{ table }}' as table_name,
        count(*) as rows_landed,
        max(landed_at) as last_landed_at,
        cast(null as double) as sampled_ms

    from {{ ref('stg_landing__' ~ table) }}
    where {{ in_partitions('touched') }}
    group by dt, cluster, collection_run_id

),

{% endfor -%}
gpu_samples_counted as (

    select
        dt,
        cluster,
        collection_run_id,
        'gpu_samples' as table_name,
        count(*) as rows_landed,
        max(landed_at) as last_landed_at,
        sum(cast(interval_ms as double)) as sampled_ms

    from {{ ref('stg_landing__gpu_samples') }}
    where {{ in_partitions('touched') }}
    group by dt, cluster, collection_run_id

),

unioned as (

    select * from gpu_samples_counted
    {% for table in ['gpu_inventory', 'gpu_processes', 'node_samples', 'inference_usage', 'inference_requests'] -%}
    union all
    select * from {{ table }}_counted
    {% endfor %}
),

counted as (

    select
        unioned.dt as usage_date,
        unioned.cluster,
        coalesce(landings.source, 'unknown') as source,
        unioned.table_name,
        cast(sum(unioned.rows_landed) as bigint) as rows_landed,
        max(unioned.last_landed_at) as last_landed_at,
        sum(unioned.sampled_ms) / 3.6e6 as sampled_hours

    from unioned
    left join landings
        on unioned.collection_run_id = landings.collection_run_id
    where {{ in_touched_days('unioned.dt') }}
    group by
        unioned.dt,
        unioned.cluster,
        coalesce(landings.source, 'unknown'),
        unioned.table_name

)

select * from counted
