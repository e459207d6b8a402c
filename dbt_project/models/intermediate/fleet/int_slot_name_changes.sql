with

slot_names as (

    select * from {{ ref('int_slot_names') }}

),

-- from the day on which a name was first used to the one on which it was last: what it meant there may have changed
compared as (

    select
        concat_ws('|', cluster, slot_name) as change_key,
        date_trunc('day', first_seen_at) as started_at,
        date_trunc('day', last_seen_at) + interval 1 day as ended_at,
        md5(concat_ws('|', gpu_id, slot_id, cast(round(instance_part, 9) as varchar))) as fingerprint

    from slot_names

)

select * from compared
