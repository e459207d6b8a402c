with

lines as (

    select * from {{ ref('fct_billing_lines') }}

),

cards as (

    select * from {{ ref('stg_landing__rate_cards') }}

),

list_prices as (

    select * from {{ ref('stg_landing__list_prices') }}

),

carbon as (

    select * from {{ ref('stg_landing__carbon_intensities') }}

),

delivered_through as (

    select * from {{ ref('int_billing_delivered_through') }}

),

exchange_rates as (

    select * from {{ ref('int_exchange_rates') }}

),

data_through as (

    select max(data_through_at) as data_through_at
    from {{ source('control', 'data_through') }}

),

changes as (

    select
        'line|' || line_id as change_key,
        charge_period_start as started_at,
        charge_period_end as ended_at,
        md5(concat_ws('|', cast(effective_cost as varchar), cast(billed_cost as varchar), line_role, matched_resource_id)) as fingerprint

    from lines

    union all

    select
        concat_ws(
            '|', 'card', cards.gpu_model, coalesce(cards.provider, ''), coalesce(cards.cluster, ''), cards.currency,
            cast(cards.valid_from as varchar)
        ) as change_key,
        cards.valid_from as started_at,
        coalesce(cards.valid_to, data_through.data_through_at) as ended_at,
        md5(concat_ws(
            '|',
            coalesce(cast(cards.cost_per_gpu_hour as varchar), ''),
            coalesce(cast(cards.purchase_price as varchar), ''),
            coalesce(cast(cards.depreciation_hours as varchar), ''),
            coalesce(cast(cards.hosting_cost_per_hour as varchar), ''),
            coalesce(cast(cards.energy_price_per_kwh as varchar), ''),
            coalesce(cast(cards.pue as varchar), '')
        )) as fingerprint

    from cards
    cross join data_through

    union all

    select
        concat_ws(
            '|', 'list', list_prices.model, coalesce(list_prices.listed_as, ''), coalesce(list_prices.provider, ''),
            list_prices.currency, cast(list_prices.valid_from as varchar)
        ) as change_key,
        list_prices.valid_from as started_at,
        coalesce(list_prices.valid_to, data_through.data_through_at) as ended_at,
        md5(concat_ws(
            '|',
            coalesce(cast(list_prices.input_cost_per_million_tokens as varchar), ''),
            coalesce(cast(list_prices.cached_input_cost_per_million_tokens as varchar), ''),
            coalesce(cast(list_prices.output_cost_per_million_tokens as varchar), ''),
            coalesce(cast(list_prices.cost_per_thousand_requests as varchar), '')
        )) as fingerprint

    from list_prices
    cross join data_through

    union all

    select
        concat_ws(
            '|', 'carbon', coalesce(carbon.cluster, ''), coalesce(carbon.region, ''), cast(carbon.valid_from as varchar)
        ) as change_key,
        carbon.valid_from as started_at,
        coalesce(carbon.valid_to, data_through.data_through_at) as ended_at,
        md5(concat_ws(
            '|', cast(carbon.grams_co2e_per_kwh as varchar), coalesce(cast(carbon.pue as varchar), '')
        )) as fingerprint

    from carbon
    cross join data_through

    union all

    select
        concat_ws('|', 'rate', exchange_rates.currency, cast(exchange_rates.valid_from_at as varchar)) as change_key,
        exchange_rates.valid_from_at as started_at,
        least(exchange_rates.valid_to_at, data_through.data_through_at) as ended_at,
        md5(concat_ws('|', exchange_rates.reporting_currency, cast(exchange_rates.rate as varchar))) as fingerprint

    from exchange_rates
    cross join data_through

    union all

    -- days after the last one delivered are estimates, and rest on what that day cost
    select
        concat_ws('|', 'estimate', delivered_through.provider_name, delivered_through.billing_account_id) as change_key,
        cast(delivered_through.delivered_through_date as timestamp) + interval 1 day as started_at,
        max(data_through.data_through_at) as ended_at,
        md5(cast(sum(lines.effective_cost) as varchar)) as fingerprint

    from delivered_through
    inner join lines
        on
            delivered_through.provider_name = lines.provider_name
            and delivered_through.billing_account_id = lines.billing_account_id
            and cast(lines.charge_period_start as date) <= delivered_through.delivered_through_date
            and lines.charge_period_end > cast(delivered_through.delivered_through_date as timestamp)
    cross join data_through
    group by
        delivered_through.provider_name, delivered_through.billing_account_id, delivered_through.delivered_through_date

)

select * from changes
where started_at < ended_at
