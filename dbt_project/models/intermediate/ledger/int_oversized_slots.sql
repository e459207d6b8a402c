with

slots as (

    select * from {{ ref('int_slots_fitted') }}

),

oversized as (

    select
        slot_run_number,
        usage_date,
        fit_ratio

    from slots
    where null_reason = ''

)

select * from oversized
