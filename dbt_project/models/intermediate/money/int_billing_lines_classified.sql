-- Which lines of a bill speak of GPUs, and what part each plays (semantics 7, Scope). A bill of a whole cloud holds a
-- hundred thousand lines of which a handful are GPUs; what is left out is counted as `out_of_scope`, never allocated.

with

lines as (

    select * from {{ ref('int_billing_lines_current') }}

),

resources_matched as (

    select * from {{ ref('int_billing_resources_matched') }}

),

sku_types as (

    select * from {{ ref('gpu_sku_types') }}

),

gpu_models as (

    select * from {{ ref('gpu_models') }}

),

-- each text that could name a GPU type, once, as words between hyphens
sku_texts as (

    select sku_id as sku_text from lines
    union
    select resource_type as sku_text from lines

),

sku_words as (

    select
        sku_text,
        concat('-', translate(lower(sku_text), ' _:/,;.()', '---------'), '-') as words

    from sku_texts
    where sku_text is not null

),

instance_words as (

    select
        price_of,
        concat('-', translate(lower(sku_type), ' _:/,;.()', '---------'), '-') as words

    from sku_types

),

instance_skus as (

    select distinct
        sku_words.sku_text,
        instance_words.price_of

    from sku_words
    inner join instance_words on instr(sku_words.words, instance_words.words) > 0

),

-- a short name of a card (T4, P4) is a disk tier or a size elsewhere: alone, or beside a word that speaks of GPUs
model_skus as (

    select distinct sku_words.sku_text
    from sku_words
    inner join gpu_models on sku_words.words like gpu_models.name_pattern
    where
        (
            length(translate(gpu_models.name_pattern, '%-', '')) >= 4
            and upper(gpu_models.name_pattern) <> lower(gpu_models.name_pattern)
        )
        or instr(trim(both '-' from sku_words.words), '-') = 0
        or instr(sku_words.words, '-gpu-') > 0
        or instr(sku_words.words, '-nvidia-') > 0
        or instr(sku_words.words, '-tesla-') > 0
        or instr(sku_words.words, '-amd-') > 0

),

-- what the price of a SKU is the price of: a node with its GPUs, or a GPU alone
gpu_skus as (

    select
        sku_words.sku_text,
        coalesce(min(instance_skus.price_of), 'gpu') as price_of

    from sku_words
    left join instance_skus on sku_words.sku_text = instance_skus.sku_text
    left join model_skus on sku_words.sku_text = model_skus.sku_text
    where instance_skus.sku_text is not null or model_skus.sku_text is not null
    group by sku_words.sku_text

),

-- a bill of FOCUS 1.0 has an opaque SKU and the type "instance"; the machine's type is in the words of the charge alone
descriptions as (

    select distinct charge_description
    from lines
    where
        lower(charge_category) = 'usage'
        and lower(coalesce(service_category, 'compute')) in ('compute', 'ai and machine learning')

),

description_words as (

    select
        charge_description,
        concat('-', translate(lower(charge_description), ' _:/,;.()', '---------'), '-') as words

    from descriptions

),

described_types as (

    select distinct description_words.charge_description
    from description_words
    inner join instance_words on instr(description_words.words, instance_words.words) > 0
    where instance_words.price_of = 'node'

),

-- a resource has one key, that of its devices, however the bill writes it
matched as (

    select
        lines.* exclude (resource_key),
        coalesce(resources_matched.device_key, lines.resource_key) as resource_key,
        resources_matched.device_key is not null as is_gpu_resource,
        coalesce(
            skus.price_of, types.price_of, case when described_types.charge_description is not null then 'node' end
        ) as price_of,
        coalesce(skus.price_of, types.price_of) is null and described_types.charge_description is not null as is_described

    from lines
    left join resources_matched on lines.resource_key = resources_matched.bill_key
    left join gpu_skus as skus on lines.sku_id = skus.sku_text
    left join gpu_skus as types on lines.resource_type = types.sku_text
    left join described_types
        on
            lines.charge_description = described_types.charge_description
            and lower(lines.charge_category) = 'usage'
            and lower(coalesce(lines.service_category, 'compute')) in ('compute', 'ai and machine learning')

),

commitments as (

    select distinct
        provider_name,
        billing_account_id,
        {{ resource_key('commitment_discount_id') }} as commitment_key

    from matched
    where commitment_discount_id is not null and (is_gpu_resource or price_of is not null)

),

-- the purchase of such a commitment and its unused part, not what else it covers: a savings plan may serve other
-- machines too; a purchase may name its commitment as the resource bought
committed as (

    select
        matched.*,
        commitments.commitment_key is not null
        and (
            lower(matched.charge_category) = 'purchase'
            or lower(coalesce(matched.commitment_discount_status, '')) = 'unused'
            or matched.resource_key is null
            or matched.resource_key = commitments.commitment_key
        ) as is_gpu_commitment

    from matched
    left join commitments
        on
            matched.provider_name = commitments.provider_name
            and matched.billing_account_id = commitments.billing_account_id
            and {{ resource_key('coalesce(matched.commitment_discount_id, matched.resource_id)') }} = commitments.commitment_key

),

-- of the lines without a resource those of a sub-account that runs nothing but GPUs
sub_accounts as (

    select
        provider_name,
        billing_account_id,
        coalesce(sub_account_id, '') as sub_account_id

    from committed
    where resource_id is not null
    group by provider_name, billing_account_id, coalesce(sub_account_id, '')
    having bool_and(is_gpu_resource or price_of is not null or is_gpu_commitment)

),

-- where the provider prices the GPUs of a resource by themselves, its other lines are no GPU money
itemised as (

    select distinct
        provider_name,
        billing_account_id,
        resource_key,
        charge_date

    from committed
    where price_of = 'gpu' and resource_key is not null and lower(charge_category) = 'usage'

),

scoped as (

    select
        committed.*,
        lower(committed.charge_category) as category,
        case
            when committed.is_gpu_resource then 'resource'
            when committed.is_described then 'description'
            when committed.price_of is not null then 'sku'
            when committed.is_gpu_commitment then 'commitment'
            when committed.resource_id is null and sub_accounts.sub_account_id is not null then 'sub_account'
            else 'none'
        end as scope_reason,
        (
            committed.price_of is null
            and coalesce(committed.sku_id, committed.resource_type) is not null
            and itemised.resource_key is not null
        ) as is_itemised_elsewhere

    from committed
    left join sub_accounts
        on
            committed.provider_name = sub_accounts.provider_name
            and committed.billing_account_id = sub_accounts.billing_account_id
            and coalesce(committed.sub_account_id, '') = sub_accounts.sub_account_id
    left join itemised
        on
            committed.provider_name = itemised.provider_name
            and committed.billing_account_id = itemised.billing_account_id
            and committed.resource_key = itemised.resource_key
            and committed.charge_date = itemised.charge_date

),

-- a delivery of which all effective costs are whole while amounts billed are not has rounded them: a GPU-hour of 0.40 would
-- be free (AWS's and Oracle's first exports). A purchase that is amortised has none, which is no rounding
rounded_deliveries as (

    select
        provider_name,
        billing_account_id,
        delivery_id,
        collection_run_id

    from lines
    where lower(charge_category) <> 'purchase'
    group by provider_name, billing_account_id, delivery_id, collection_run_id
    having
        bool_and(effective_cost = round(effective_cost))
        and bool_or(billed_cost <> round(billed_cost) and abs(billed_cost - effective_cost) < 1)

),

-- the parts that were not rounded, the surest first: each must come to the rounded cost
unrounded as (

    select
        scoped.*,
        rounded_deliveries.delivery_id is not null as is_of_rounded_delivery,
        cast(
            round(cast(scoped.effective_unit_price as double) * cast(scoped.pricing_quantity as double), 9) as decimal(38, 12)
        ) as cost_at_effective_price,
        case when scoped.commitment_discount_id is null then scoped.billed_cost end as uncommitted_cost,
        case
            when scoped.commitment_discount_id is null
                then cast(
                    round(cast(scoped.contracted_unit_price as double) * cast(scoped.pricing_quantity as double), 9)
                    as decimal(38, 12)
                )
        end as cost_at_contracted_price

    from scoped
    left join rounded_deliveries
        on
            scoped.provider_name = rounded_deliveries.provider_name
            and scoped.billing_account_id = rounded_deliveries.billing_account_id
            and scoped.delivery_id = rounded_deliveries.delivery_id
            and scoped.collection_run_id is not distinct from rounded_deliveries.collection_run_id

),

recomputed as (

    select
        * exclude (is_of_rounded_delivery, cost_at_effective_price, uncommitted_cost, cost_at_contracted_price),
        is_of_rounded_delivery and category <> 'purchase' and scope_reason <> 'none' as is_rounded,
        case
            when not (is_of_rounded_delivery and category <> 'purchase' and scope_reason <> 'none') then null
            when abs(cost_at_effective_price - effective_cost) < 1 then cost_at_effective_price
            when abs(uncommitted_cost - effective_cost) < 1 and uncommitted_cost <> round(uncommitted_cost) then uncommitted_cost
            when abs(cost_at_contracted_price - effective_cost) < 1 then cost_at_contracted_price
            when abs(uncommitted_cost - effective_cost) < 1 then uncommitted_cost
        end as unrounded_cost

    from unrounded

),

costed as (

    select
        recomputed.* exclude (effective_cost, is_rounded, unrounded_cost),
        effective_cost as delivered_effective_cost,
        coalesce(unrounded_cost, effective_cost) as effective_cost,
        case
            when unrounded_cost is not null then 'recomputed'
            when is_rounded then 'rounded'
            else 'delivered'
        end as effective_cost_method

    from recomputed

),

-- a refund is known by its sign: negative usage is capacity, a credit is a line of its own, with a resource or without
classified as (

    select
        costed.*,
        case
            when category = 'tax' then 'tax'
            when
                category = 'support'
                or (
                    lower(coalesce(service_category, '')) = 'support'
                    or concat(' ', lower(coalesce(service_name, '')), ' ') like '% support%'
                )
                and not is_gpu_resource
                then 'support'
            when scope_reason = 'none' then 'out_of_scope'
            when category = 'credit' then 'credit'
            when category = 'purchase' and (commitment_discount_id is not null or is_gpu_commitment) then 'commitment_purchase'
            when category = 'usage' and lower(coalesce(commitment_discount_status, '')) = 'unused' then 'commitment_unused'
            -- what a commitment covers and costs nothing though it has a price was paid for in another bill: its cost is not
            -- known, and not 0
            when
                lower(coalesce(commitment_discount_status, '')) = 'used'
                and billed_cost = 0
                and effective_cost = 0
                and greatest(coalesce(list_cost, 0), coalesce(contracted_cost, 0)) > 0
                then 'other'
            when category = 'usage' and scope_reason in ('resource', 'sku', 'description') and not is_itemised_elsewhere then 'capacity'
            else 'other'
        end as line_role

    from costed

),

-- lines of one role, account, currency, resource and period are one charge, added up before anything is rounded
charged as (

    select
        classified.*,
        case
            when line_role in ('capacity', 'commitment_unused', 'credit', 'other')
                then md5(
                    concat_ws(
                        '|', line_role, provider_name, billing_account_id, billing_currency, coalesce(resource_key, ''),
                        cast(charge_period_start as varchar), cast(charge_period_end as varchar)
                    )
                )
        end as charge_id

    from classified

)

select * from charged
