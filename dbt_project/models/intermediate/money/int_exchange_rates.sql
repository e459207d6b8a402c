-- Rates into the one reporting currency (that of the rate landed last), each in force until the next one begins. Without
-- a configured rate the table is empty, and no two currencies are ever added (semantics 7).

with

exchange_rates as (

    select * from {{ ref('stg_landing__exchange_rates') }}

),

cleaned as (

    select
        upper(trim(currency)) as currency,
        upper(trim(reporting_currency)) as reporting_currency,
        rate,
        valid_from as valid_from_at,
        valid_to as valid_to_at,
        landed_at

    from exchange_rates
    where valid_to is null or valid_to > valid_from

),

reporting_ranked as (

    select
        reporting_currency,
        row_number() over (order by landed_at desc nulls last, reporting_currency nulls last) as reporting_rank

    from cleaned

),

reporting as (

    select reporting_currency
    from reporting_ranked
    where reporting_rank = 1

),

followed as (

    select
        cleaned.currency,
        cleaned.reporting_currency,
        cleaned.rate,
        cleaned.valid_from_at,
        cleaned.valid_to_at,
        lead(cleaned.valid_from_at) over (
            partition by cleaned.currency
            order by cleaned.valid_from_at nulls last
        ) as next_from_at

    from cleaned
    inner join reporting on cleaned.reporting_currency = reporting.reporting_currency
    where cleaned.currency <> cleaned.reporting_currency

),

final as (

    select
        currency,
        reporting_currency,
        rate,
        valid_from_at,
        least(
            coalesce(valid_to_at, timestamp '9999-12-31'), coalesce(next_from_at, timestamp '9999-12-31')
        ) as valid_to_at

    from followed

    union all

    -- the reporting currency is worth itself, from the first rate on
    select
        reporting_currency as currency,
        reporting_currency,
        cast(1 as double) as rate,
        min(valid_from_at) as valid_from_at,
        timestamp '9999-12-31' as valid_to_at

    from followed
    group by reporting_currency

)

select * from final
