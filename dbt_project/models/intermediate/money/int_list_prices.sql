-- What others ask for a model, or for the one that it is compared with, in doubles. Cached tokens cost what others do
-- where the list does not tell.

with

landed as (

    select * from {{ ref('stg_landing__list_prices') }}

),

priced as (

    select
        trim(model) as model,
        trim(currency) as currency,
        coalesce(nullif(trim(listed_as), ''), trim(model)) as list_model,
        coalesce(nullif(trim(provider), ''), 'unknown') as list_provider,
        cast(input_cost_per_million_tokens as double) as input_price,
        cast(coalesce(cached_input_cost_per_million_tokens, input_cost_per_million_tokens) as double) as cached_price,
        cast(output_cost_per_million_tokens as double) as output_price,
        cast(cost_per_thousand_requests as double) as request_price,
        valid_from,
        valid_to

    from landed

)

select * from priced
