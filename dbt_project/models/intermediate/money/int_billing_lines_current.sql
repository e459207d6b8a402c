{{ config(materialized='view') }}

-- Providers deliver a billing period again and again, each time with all of it, part of it, or a restated past, and
-- write a missing text as NULL. A delivery replaces what it covers: per provider, billing account and billing period,
-- each date of charge is told by the newest delivery that has lines for it, so that a delivery which covers less than
-- the one before leaves the dates it lacks. A correction of October delivered with November's bill belongs to
-- November's billing period and stands beside October's line (cases D02, D06). The files of one landing are one
-- delivery; a name that a person gave to two landings does not make them one, and the one landed last stands.

with

lines as (

    select * from {{ ref('stg_landing__billing_lines') }}

),

cleaned as (

    select
        -- ids
        {{ billed_text('provider_name') }} as provider_name,
        {{ billed_text('billing_account_id') }} as billing_account_id,
        {{ billed_text('sub_account_id') }} as sub_account_id,
        {{ billed_text('invoice_id') }} as invoice_id,
        {{ billed_text('resource_id') }} as resource_id,
        {{ billed_text('resource_alias') }} as resource_alias,
        {{ billed_text('commitment_discount_id') }} as commitment_discount_id,
        {{ billed_text('sku_id') }} as sku_id,
        {{ billed_text('sku_price_id') }} as sku_price_id,
        delivery_id,
        collection_run_id,
        line_number,

        -- text
        {{ billed_text('billing_currency') }} as billing_currency,
        {{ billed_text('charge_category') }} as charge_category,
        {{ billed_text('charge_class') }} as charge_class,
        {{ billed_text('charge_description') }} as charge_description,
        {{ billed_text('charge_frequency') }} as charge_frequency,
        {{ billed_text('commitment_discount_status') }} as commitment_discount_status,
        {{ billed_text('consumed_unit') }} as consumed_unit,
        {{ billed_text('pricing_category') }} as pricing_category,
        {{ billed_text('pricing_unit') }} as pricing_unit,
        {{ billed_text('resource_type') }} as resource_type,
        {{ billed_text('region_id') }} as region_id,
        {{ billed_text('availability_zone') }} as availability_zone,
        {{ billed_text('service_category') }} as service_category,
        {{ billed_text('service_name') }} as service_name,
        tags,

        -- numerics
        billed_cost,
        effective_cost,
        list_cost,
        contracted_cost,
        consumed_quantity,
        pricing_quantity,
        list_unit_price,
        contracted_unit_price,
        effective_unit_price,

        -- timestamps
        billing_period_start,
        billing_period_end,
        charge_period_start,
        charge_period_end,
        delivered_at,
        landed_at

    from lines

),

delivery_dates as (

    select
        provider_name,
        billing_account_id,
        billing_period_start,
        cast(charge_period_start as date) as charge_date,
        delivery_id,
        collection_run_id,
        max(delivered_at) as delivered_at,
        max(landed_at) as landed_at

    from cleaned
    group by
        provider_name, billing_account_id, billing_period_start, cast(charge_period_start as date), delivery_id,
        collection_run_id

),

delivery_dates_ranked as (

    select
        delivery_dates.*,
        row_number() over (
            partition by provider_name, billing_account_id, billing_period_start, charge_date
            order by
                delivered_at desc nulls last, delivery_id desc nulls last, landed_at desc nulls last,
                collection_run_id desc nulls last
        ) as delivery_rank

    from delivery_dates

),

standing as (

    select * from delivery_dates_ranked
    where delivery_rank = 1

),

-- two files of one landing may hold the same line number: the ordinal tells their lines apart
current_lines as (

    select
        cleaned.*,
        standing.charge_date,
        row_number() over (
            partition by
                cleaned.provider_name, cleaned.billing_account_id, cleaned.delivery_id, cleaned.collection_run_id,
                cleaned.line_number
            order by
                cleaned.charge_period_start nulls last, cleaned.charge_period_end nulls last, cleaned.resource_id nulls last,
                cleaned.sku_id nulls last, cleaned.charge_category nulls last, cleaned.effective_cost nulls last,
                cleaned.billed_cost nulls last
        ) as line_ordinal

    from cleaned
    inner join standing
        on
            cleaned.provider_name = standing.provider_name
            and cleaned.billing_account_id = standing.billing_account_id
            and cleaned.billing_period_start = standing.billing_period_start
            and cast(cleaned.charge_period_start as date) = standing.charge_date
            and cleaned.delivery_id = standing.delivery_id
            and cleaned.collection_run_id is not distinct from standing.collection_run_id

),

identified as (

    select
        md5(
            concat_ws(
                '|', provider_name, billing_account_id, delivery_id, collection_run_id,
                cast(line_number as varchar), cast(line_ordinal as varchar)
            )
        ) as line_id,
        current_lines.*,
        {{ resource_key('resource_id') }} as resource_key

    from current_lines

)

select * from identified
