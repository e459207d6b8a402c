-- What machine a node is, by day: as it was last seen by the end of the day, before the first sighting as it was then.

with

sightings as (

    select * from {{ ref('stg_landing__nodes') }}

),

by_day as (

    select
        cluster,
        node,
        cast(seen_at as date) as seen_date,
        max_by(cpu_count, seen_at) as cpu_count,
        max_by(memory_bytes, seen_at) as memory_bytes,
        max_by(nullif(partitions, ''), seen_at) as partitions

    from sightings
    group by cluster, node, cast(seen_at as date)

),

compared as (

    select
        by_day.*,
        concat_ws(
            '|',
            coalesce(cast(cpu_count as varchar), ''),
            coalesce(cast(memory_bytes as varchar), ''),
            coalesce(partitions, '')
        ) as fingerprint,
        lag(concat_ws(
            '|',
            coalesce(cast(cpu_count as varchar), ''),
            coalesce(cast(memory_bytes as varchar), ''),
            coalesce(partitions, '')
        )) over (partition by cluster, node order by seen_date nulls last) as previous_fingerprint

    from by_day

),

changed as (

    select
        compared.*,
        previous_fingerprint is null as is_first

    from compared
    where previous_fingerprint is null or previous_fingerprint <> fingerprint

),

sized as (

    select
        cluster,
        node,
        cpu_count,
        memory_bytes,
        partitions,
        case when is_first then date '1970-01-01' else seen_date end as valid_from_date,
        coalesce(
            lead(seen_date) over (partition by cluster, node order by seen_date nulls last), date '9999-01-01'
        ) as valid_until_date,
        fingerprint

    from changed

)

select * from sized
