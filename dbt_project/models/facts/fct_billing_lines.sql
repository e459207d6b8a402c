with

classified as (

    select * from {{ ref('int_billing_lines_classified') }}

),

final as (

    select
        -- ids
        line_id,
        provider_name,
        billing_account_id,
        coalesce(sub_account_id, 'unknown') as sub_account_id,
        coalesce(invoice_id, 'unknown') as invoice_id,
        coalesce(resource_id, 'unknown') as resource_id,
        case when is_gpu_resource then resource_key else 'unknown' end as matched_resource_id,
        coalesce(commitment_discount_id, 'unknown') as commitment_discount_id,
        coalesce(sku_id, 'unknown') as sku_id,
        coalesce(sku_price_id, 'unknown') as sku_price_id,
        delivery_id,

        -- text
        line_role,
        scope_reason,
        billing_currency,
        charge_category,
        charge_class,
        charge_description,
        charge_frequency,
        commitment_discount_status,
        consumed_unit,
        pricing_category,
        pricing_unit,
        resource_type,
        region_id,
        availability_zone,
        service_category,
        service_name,
        tags,

        -- numerics: as landed, rounded nowhere before the ledger
        cast(billed_cost as decimal(38, 12)) as billed_cost,
        cast(effective_cost as decimal(38, 12)) as effective_cost,
        cast(delivered_effective_cost as decimal(38, 12)) as delivered_effective_cost,
        effective_cost_method,
        cast(list_cost as decimal(38, 12)) as list_cost,
        cast(contracted_cost as decimal(38, 12)) as contracted_cost,
        cast(consumed_quantity as decimal(38, 12)) as consumed_quantity,
        cast(pricing_quantity as decimal(38, 12)) as pricing_quantity,

        -- timestamps
        billing_period_start,
        billing_period_end,
        charge_period_start,
        charge_period_end,
        delivered_at

    from classified

)

select * from final
