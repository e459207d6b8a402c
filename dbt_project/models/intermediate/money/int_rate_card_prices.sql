-- Rate cards as a price per hour with its parts. How a card prices is said in `macros/rate_cards.sql`, which the what-if
-- command reads as well.

with

rate_cards as (

    select * from {{ ref('stg_landing__rate_cards') }}

),

priced as (

    {{ rate_card_prices('rate_cards') }}

)

select * from priced
where fixed_cost_per_hour is not null
