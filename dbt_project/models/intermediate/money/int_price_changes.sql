-- The stretches in which each rate card is in force, as far as anything is known to have happened: compared with the
-- last build's, they tell the days whose prices changed. A card without an end reaches to the last instant landed.

with

rate_cards as (

    select * from {{ ref('stg_landing__rate_cards') }}

),

known as (

    select
        min(window_start_at) as known_from_at,
        max(window_end_at) as known_until_at

    from {{ source('control', 'collection_runs') }}
    where table_name not in ('billing_lines', 'rate_cards', 'workload_rules', 'interventions')

),

compared as (

    select
        concat_ws(
            '|', rate_cards.gpu_model, coalesce(rate_cards.provider, ''), coalesce(rate_cards.cluster, ''),
            rate_cards.currency, cast(rate_cards.valid_from as varchar)
        ) as change_key,
        greatest(rate_cards.valid_from, known.known_from_at) as started_at,
        least(coalesce(rate_cards.valid_to, known.known_until_at), known.known_until_at) as ended_at,
        md5(
            concat_ws(
                '|',
                coalesce(cast(rate_cards.cost_per_gpu_hour as varchar), ''),
                coalesce(cast(rate_cards.purchase_price as varchar), ''),
                coalesce(cast(rate_cards.depreciation_hours as varchar), ''),
                coalesce(cast(rate_cards.hosting_cost_per_hour as varchar), ''),
                coalesce(cast(rate_cards.energy_price_per_kwh as varchar), ''),
                coalesce(cast(rate_cards.pue as varchar), '')
            )
        ) as fingerprint

    from rate_cards
    cross join known

)

select * from compared
where started_at < ended_at
