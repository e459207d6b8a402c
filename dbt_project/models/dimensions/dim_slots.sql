with

layouts as (

    select * from {{ ref('int_gpu_layouts') }}

),

gpus as (

    select * from {{ ref('dim_gpus') }}

),

-- of several layouts that name a slot the latest describes it, of the cluster in which its device was last seen if
-- that cluster knows the slot
latest as (

    select
        layouts.cluster,
        layouts.slot_id,
        layouts.gpu_id,
        layouts.mig_profile,
        layouts.slot_fraction,
        layouts.is_stranded,
        row_number() over (
            partition by layouts.slot_id
            order by
                case when layouts.cluster = gpus.cluster then 0 else 1 end nulls last,
                layouts.valid_from_at desc nulls last,
                layouts.cluster nulls last
        ) as layout_rank

    from layouts
    inner join gpus on layouts.gpu_id = gpus.gpu_id

),

described as (

    select
        slot_id,
        cluster,
        gpu_id,
        mig_profile,
        slot_fraction,
        is_stranded

    from latest
    where layout_rank = 1

    union all

    select
        gpu_id as slot_id,
        cluster,
        gpu_id,
        cast(null as varchar) as mig_profile,
        1.0 as slot_fraction,
        false as is_stranded

    from gpus
    where is_implied

)

select
    slot_id,
    cluster,
    gpu_id,
    mig_profile,
    cast(slot_fraction as double) as slot_fraction,
    is_stranded

from described
