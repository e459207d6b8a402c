{#- How a rate card prices device-hours, said once: the build's models and `python -m warehouse what-if` both read this
    file. It therefore holds plain SQL that needs nothing of dbt. -#}

{#- Rate cards as a price per hour with its parts: a rate, or purchase price over depreciation hours, plus hosting, plus
    energy at the measured kWh. A price of 0 is a price; a part that is not given adds nothing. -#}
{%- macro rate_card_prices(cards) -%}
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

    from {{ cards }}
{%- endmacro -%}

{#- The card in force at the start of each hour for each cluster, GPU model and provider of `device_hours`, the most
    specific first (cluster and provider, cluster, provider, neither). -#}
{%- macro rate_cards_in_force(device_hours, prices) -%}
    select * from (
        select
            card_keys.*,
            {{ prices }}.currency,
            {{ prices }}.fixed_cost_per_hour,
            {{ prices }}.cost_per_kwh,
            case
                when {{ prices }}.cluster is not null and {{ prices }}.provider_key is not null then 'cluster and provider'
                when {{ prices }}.cluster is not null then 'cluster'
                when {{ prices }}.provider_key is not null then 'provider'
                else 'neither'
            end as cost_basis,
            row_number() over (
                partition by card_keys.hour_start_at, card_keys.cluster, card_keys.gpu_model, card_keys.provider
                order by
                    case when {{ prices }}.cluster is not null then 0 else 1 end nulls last,
                    case when {{ prices }}.provider_key is not null then 0 else 1 end nulls last,
                    {{ prices }}.valid_from_at desc nulls last,
                    {{ prices }}.landed_at desc nulls last,
                    {{ prices }}.currency nulls last
            ) as card_rank

        from (
            select distinct hour_start_at, cluster, gpu_model, provider
            from {{ device_hours }}
        ) as card_keys
        inner join {{ prices }}
            on
                lower(trim(card_keys.gpu_model)) = {{ prices }}.gpu_model_key
                and ({{ prices }}.cluster is null or {{ prices }}.cluster = card_keys.cluster)
                and ({{ prices }}.provider_key is null or {{ prices }}.provider_key = lower(trim(card_keys.provider)))
                and {{ prices }}.valid_from_at <= card_keys.hour_start_at
                and ({{ prices }}.valid_to_at is null or card_keys.hour_start_at < {{ prices }}.valid_to_at)
    ) as ranked_cards
    where card_rank = 1
{%- endmacro -%}

{#- What a card makes of a device's hour. Without measured energy its term is left out. -#}
{%- macro rate_card_cost(inventory_hours, energy_kwh) -%}
    cast(
        round(fixed_cost_per_hour * {{ inventory_hours }} + coalesce(cost_per_kwh * {{ energy_kwh }}, 0.0), 6)
        as decimal(18, 6)
    )
{%- endmacro -%}
