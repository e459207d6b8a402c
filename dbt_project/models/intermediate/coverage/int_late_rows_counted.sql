-- Rows that came for a day after its samples had expired: they change nothing but money, and are counted (semantics 11).

with

late_rows as (

    select * from {{ source('control', 'late_rows') }}

),

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

counted as (

    select
        late_rows.usage_date,
        late_rows.cluster,
        coalesce(landings.source, 'unknown') as source,
        late_rows.table_name,
        late_rows.collection_run_id,
        cast(sum(late_rows.rows_late) as bigint) as rows_late

    from late_rows
    left join landings
        on late_rows.collection_run_id = landings.collection_run_id
    group by
        late_rows.usage_date,
        late_rows.cluster,
        coalesce(landings.source, 'unknown'),
        late_rows.table_name,
        late_rows.collection_run_id

)

select * from counted
