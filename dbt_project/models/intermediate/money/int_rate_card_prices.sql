-- Rate cards as a price per hour with its parts: a rate, or purchase price over depreciation hours, plus hosting, plus
-- energy at the measured kWh. A price of 0 is a price; a part that is not given adds nothing.

with

rate_cards as (

    select * from {{ ref('stg_landing__rate_cards') }}

),

priced as (

    select
        lower(trim(gpu_model)) as gpu_model_key,
        nullif(lower(trim(provider)), '') as provider_key,
        nullif(trim(cluster), '') as cluster,
        trim(currency) as currency,
        valid_from as valid_from_at,
        valid_to as valid_to_at,
        case
            when cost_per_gpu_hour is not null then cast(cost_per_gpu_hour as double)
            else
                cast(purchase_price as double) / nullif(depreciation_hours, 0)
                + coalesce(cast(hosting_cost_per_hour as double), 0.0)
        end as fixed_cost_per_hour,
        case
            when cost_per_gpu_hour is null then cast(energy_price_per_kwh as double) * coalesce(pue, cast(1.0 as double))
        end as cost_per_kwh,
        landed_at

    from rate_cards

)

select * from priced
where fixed_cost_per_hour is not null
