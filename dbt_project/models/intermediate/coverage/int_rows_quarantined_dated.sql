-- A quarantined row has no time that can be trusted, and may name no cluster: it is counted on the first day of its
-- landing's window, else on the day it landed, and in the cluster of the landing, else `unallocated`.

with

outcomes as (

    select * from {{ source('control', 'collection_runs') }}

),

landings as (

    select
        collection_run_id,
        max(source) as source,
        max(cluster) as cluster,
        cast(coalesce(min(window_start_at), max(landed_at)) as date) as usage_date,
        sum(rows_quarantined) as rows_quarantined,
        max(landed_at) as landed_at

    from outcomes
    group by collection_run_id

),

dated as (

    select
        usage_date,
        coalesce(cluster, 'unallocated') as cluster,
        source,
        cast(sum(rows_quarantined) as bigint) as rows_quarantined,
        max(landed_at) as last_landed_at

    from landings
    where rows_quarantined > 0
    group by usage_date, coalesce(cluster, 'unallocated'), source

)

select * from dated
