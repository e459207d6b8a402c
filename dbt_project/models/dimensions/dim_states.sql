with

states as (

    select * from {{ ref('states') }}

),

final as (

    select
        state,
        state_order,
        is_ghost,
        label,
        definition,
        coalesce(state_reasons, '') as state_reasons

    from states

)

select * from final
