with

claims as (

    select * from {{ ref('int_holds_claimed') }}

),

compared as (

    select
        concat_ws(
            '|', run_id, node, coalesce(gpu_uuid, ''), coalesce(slot_uuid, ''), coalesce(mig_profile, ''), cast(started_at as varchar)
        ) as change_key,
        started_at,
        max(ended_at) as ended_at,
        md5(concat_ws(
            '|', cast(sum(gpu_count) as varchar), coalesce(cast(max(share_ratio) as varchar), ''), max(assignment_method)
        )) as fingerprint

    from claims
    group by run_id, node, gpu_uuid, slot_uuid, mig_profile, started_at

)

select * from compared
