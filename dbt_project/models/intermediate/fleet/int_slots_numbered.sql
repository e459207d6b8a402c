-- A number for each slot, so that minutes carry one integer in place of four texts.

with

layouts as (

    select * from {{ ref('int_gpu_layouts') }}

),

slots as (

    select distinct cluster, gpu_id, slot_id
    from layouts

),

numbered as (

    select
        cast(
            row_number() over (order by cluster nulls last, gpu_id nulls last, slot_id nulls last) as integer
        ) as slot_number,
        cluster,
        gpu_id,
        slot_id

    from slots

)

select * from numbered
