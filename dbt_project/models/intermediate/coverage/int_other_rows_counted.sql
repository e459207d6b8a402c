-- Rows of the tables that the build compares as intervals. They are few, and a row that lands may lie in a day that
-- nothing else touches: so they are counted in full.

with

outcomes as (

    select * from {{ source('control', 'collection_runs') }}

),

late_rows as (

    select distinct
        usage_date,
        table_name,
        collection_run_id

    from {{ source('control', 'late_rows') }}

),

landings as (

    select
        collection_run_id,
        max(source) as source

    from outcomes
    group by collection_run_id

),

unioned as (

    {% for table in ['runs', 'run_gpus', 'nodes', 'node_states', 'training_events'] -%}
    select
        dt,
        cluster,
        collection_run_id,
        '{{ table }}' as table_name,
        landed_at

    from {{ ref('stg_landing__' ~ table) }}
    union all
    {% endfor -%}
    -- a bill is of an account, not of a cluster
    select
        dt,
        'unallocated' as cluster,
        collection_run_id,
        'billing_lines' as table_name,
        landed_at

    from {{ ref('stg_landing__billing_lines') }}

),

counted as (

    select
        unioned.dt as usage_date,
        unioned.cluster,
        coalesce(landings.source, 'unknown') as source,
        unioned.table_name,
        count(*) as rows_landed,
        max(unioned.landed_at) as last_landed_at

    from unioned
    left join landings
        on unioned.collection_run_id = landings.collection_run_id
    left join late_rows
        on
            unioned.dt = late_rows.usage_date
            and unioned.table_name = late_rows.table_name
            and unioned.collection_run_id = late_rows.collection_run_id
    where late_rows.collection_run_id is null
    group by
        unioned.dt,
        unioned.cluster,
        coalesce(landings.source, 'unknown'),
        unioned.table_name

)

select * from counted
