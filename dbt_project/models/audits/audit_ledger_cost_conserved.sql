-- The promise of conservation, for money: what each device-hour costs is what its rows of the ledger cost, to the
-- millionth, and the rows carry the source and the currency of that price. A device-hour that does not hold keeps the
-- build from being published: compare `int_device_hour_costs` with the ledger there.

{{ config(
    materialized='incremental', incremental_strategy='replace_days', meta={'days': 'priced'},
    on_schema_change='append_new_columns'
) }}

with

costs as (

    select * from {{ ref('int_device_hour_costs') }}
    where {{ in_priced_days('usage_date') }}

),

ledger as (

    select * from {{ ref('fct_gpu_ledger_hourly') }}
    where {{ in_priced_days('usage_date') }}

),

promised_hours as (

    select
        usage_date,
        cluster,
        gpu_id,
        hour_start_at,
        currency,
        cost_source,
        cost

    from costs

),

measured_hours as (

    select
        usage_date,
        cluster,
        gpu_id,
        hour_start_at,
        currency,
        cost_source,
        sum(cost) as cost

    from ledger
    group by usage_date, cluster, gpu_id, hour_start_at, currency, cost_source

),

-- a price on one side only is a difference like any other
compared as (

    select
        coalesce(promised_hours.usage_date, measured_hours.usage_date) as usage_date,
        coalesce(promised_hours.cluster, measured_hours.cluster) as cluster,
        coalesce(promised_hours.currency, measured_hours.currency) as currency,
        promised_hours.cost as promised_cost,
        measured_hours.cost as measured_cost,
        promised_hours.gpu_id is null or measured_hours.gpu_id is null as is_on_one_side

    from promised_hours
    full outer join measured_hours
        on
            promised_hours.cluster = measured_hours.cluster
            and promised_hours.gpu_id = measured_hours.gpu_id
            and promised_hours.hour_start_at = measured_hours.hour_start_at
            and promised_hours.currency = measured_hours.currency
            and promised_hours.cost_source = measured_hours.cost_source

),

audited as (

    select
        usage_date,
        cluster,
        currency,
        cast(coalesce(sum(promised_cost), 0) as decimal(18, 6)) as promised,
        cast(coalesce(sum(measured_cost), 0) as decimal(18, 6)) as measured,
        cast(coalesce(sum(measured_cost), 0) - coalesce(sum(promised_cost), 0) as decimal(18, 6)) as difference,
        count(
            case when is_on_one_side or promised_cost is distinct from measured_cost then 1 end
        ) as device_hours_off

    from compared
    group by usage_date, cluster, currency

),

final as (

    select
        audited.*,
        difference = 0 and device_hours_off = 0 as holds

    from audited

)

select * from final
