with

outcomes as (

    select * from {{ source('control', 'collection_runs') }}

),

late_rows as (

    select
        collection_run_id,
        cast(sum(rows_late) as bigint) as rows_late

    from {{ ref('int_late_rows_counted') }}
    group by collection_run_id

),

-- a landing leaves one record per table; its rejects and its reasons stand beside the first
landings as (

    select
        collection_run_id,
        max(source) as source,
        coalesce(max(cluster), 'unknown') as cluster,
        max(status) as status,
        max(error) as error,
        max(source_version) as source_version,
        min(window_start_at) as window_start_at,
        max(window_end_at) as window_end_at,
        max(data_through_at) as data_through_at,
        min(started_at) as started_at,
        max(landed_at) as landed_at,
        count(nullif(table_name, '')) as table_count,
        coalesce({{ joined_text("distinct nullif(table_name, '')", "nullif(table_name, '')") }}, '') as landing_tables,
        cast(sum(rows_landed) as bigint) as rows_landed,
        cast(sum(rows_quarantined) as bigint) as rows_quarantined,
        max(rejects) as rejects_by_reason,
        max(gaps) as gaps

    from outcomes
    group by collection_run_id

),

final as (

    select
        landings.collection_run_id,
        landings.source,
        landings.cluster,
        landings.status,
        landings.error,
        landings.source_version,
        landings.window_start_at,
        landings.window_end_at,
        landings.data_through_at,
        landings.started_at,
        landings.landed_at,
        landings.table_count,
        landings.landing_tables,
        landings.rows_landed,
        landings.rows_quarantined,
        coalesce(late_rows.rows_late, 0) as rows_late,
        landings.rejects_by_reason,
        landings.gaps

    from landings
    left join late_rows on landings.collection_run_id = late_rows.collection_run_id

)

select * from final
