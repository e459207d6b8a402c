{{ config(
    materialized='incremental', incremental_strategy='replace_days', meta={'days': 'priced'},
    on_schema_change='append_new_columns'
) }}

-- What energy each workload's held time drew, as far as it was measured, and the CO2e that stands for where a carbon
-- intensity is configured: the one in force at the start of the hour, the most specific first (cluster and region,
-- cluster, region, neither). In whole milliwatt-hours and micrograms, so that they can be shared out like money.

with

ledger as (

    select * from {{ ref('fct_gpu_ledger_hourly') }}
    where workload_id not in ('unallocated', 'unknown') and {{ in_priced_days('usage_date') }}

),

nodes as (

    select * from {{ ref('dim_nodes') }}

),

intensities as (

    select
        nullif(trim(cluster), '') as cluster,
        nullif(lower(trim(region)), '') as region_key,
        grams_co2e_per_kwh * coalesce(pue, 1.0) as grams_per_kwh,
        valid_from,
        valid_to

    from {{ ref('stg_landing__carbon_intensities') }}

),

placed as (

    select
        ledger.hour_start_at,
        ledger.usage_date,
        ledger.cluster,
        lower(nodes.region) as region_key,
        ledger.workload_id,
        ledger.currency,
        sum(ledger.energy_kwh) as energy_kwh,
        cast(sum(case when ledger.energy_kwh is not null then ledger.gpu_microseconds else 0 end) as bigint) as measured_us

    from ledger
    left join nodes on ledger.cluster = nodes.cluster and ledger.node = nodes.node
    group by
        ledger.hour_start_at, ledger.usage_date, ledger.cluster, lower(nodes.region), ledger.workload_id, ledger.currency

),

places as (

    select distinct
        hour_start_at,
        cluster,
        region_key

    from placed

),

in_force as (

    select
        places.*,
        intensities.grams_per_kwh,
        row_number() over (
            partition by places.hour_start_at, places.cluster, places.region_key
            order by
                case when intensities.cluster is not null then 0 else 1 end nulls last,
                case when intensities.region_key is not null then 0 else 1 end nulls last,
                intensities.valid_from desc nulls last
        ) as intensity_rank

    from places
    inner join intensities
        on
            (intensities.cluster is null or intensities.cluster = places.cluster)
            and (intensities.region_key is null or intensities.region_key = places.region_key)
            and intensities.valid_from <= places.hour_start_at
            and (intensities.valid_to is null or places.hour_start_at < intensities.valid_to)

),

weighed as (

    select
        placed.*,
        in_force.grams_per_kwh

    from placed
    left join in_force
        on
            placed.hour_start_at = in_force.hour_start_at
            and placed.cluster = in_force.cluster
            and coalesce(placed.region_key, '') = coalesce(in_force.region_key, '')
            and in_force.intensity_rank = 1

),

final as (

    select
        hour_start_at,
        usage_date,
        workload_id,
        currency,
        cast(round(sum(energy_kwh) * 1e6) as bigint) as energy_mwh,
        cast(sum(measured_us) as bigint) as measured_us,
        case
            when count(case when energy_kwh is not null and grams_per_kwh is null then 1 end) = 0
                then cast(round(sum(energy_kwh * grams_per_kwh) * 1e6) as bigint)
        end as co2e_micrograms

    from weighed
    group by hour_start_at, usage_date, workload_id, currency

)

select * from final
