-- Through when each cluster is known: "now", for what a table says of the present. As runs without an end are clipped; the
-- window of a build does not move it.

with

data_through as (

    select
        cluster,
        max(case when table_group = 'scheduler' then data_through_at end) as scheduler_through_at,
        max(case when table_group = 'telemetry' then data_through_at end) as telemetry_through_at

    from {{ source('control', 'data_through') }}
    group by cluster

),

known as (

    select
        data_through.cluster,
        case
            when
                telemetry_through_at <= scheduler_through_at
                and telemetry_through_at >= scheduler_through_at - interval {{ var('telemetry_wait_hours') }} hour
                then telemetry_through_at
            else coalesce(scheduler_through_at, telemetry_through_at)
        end as known_until_at

    from data_through
    where scheduler_through_at is not null or telemetry_through_at is not null

)

select * from known
