-- The promise of semantics 6: the steps of the waterfall add up to the first, the time that devices were in inventory, and
-- their money to what the devices cost and the commitments left unused. A row that does not hold keeps the build from
-- being published: a step was lost or counted twice in `mart_ghost_capacity_daily`; build that day again.

{{ config(
    materialized='incremental', incremental_strategy='replace_days', meta={'days': 'priced'},
    on_schema_change='append_new_columns'
) }}

with

device_hours as (

    select * from {{ ref('int_device_hours') }}
    where {{ in_priced_days('usage_date') }}

),

costs as (

    select * from {{ ref('int_device_hour_costs') }}
    where {{ in_priced_days('usage_date') }}

),

commitments as (

    select * from {{ ref('int_commitment_unused_hours') }}
    where {{ in_priced_days('usage_date') }}

),

steps as (

    select * from {{ ref('mart_ghost_capacity_daily') }}
    where {{ in_priced_days('usage_date') }}

),

states as (

    select * from {{ ref('dim_states') }}

),

first_steps as (

    select
        device_hours.usage_date,
        device_hours.cluster,
        costs.currency,
        device_hours.inventory_us,
        costs.cost

    from device_hours
    inner join costs
        on
            device_hours.cluster = costs.cluster
            and device_hours.gpu_id = costs.gpu_id
            and device_hours.hour_start_at = costs.hour_start_at

    union all

    select
        usage_date,
        'unallocated' as cluster,
        currency,
        cast(0 as bigint) as inventory_us,
        cost

    from commitments

),

promised_days as (

    select
        usage_date,
        cluster,
        currency,
        cast(sum(inventory_us) as bigint) as promised_us,
        sum(cost) as promised_cost

    from first_steps
    group by usage_date, cluster, currency

),

measured_days as (

    select
        steps.usage_date,
        steps.cluster,
        steps.currency,
        cast(sum(round(steps.gpu_hours * 3.6e9)) as bigint) as measured_us,
        sum(steps.cost) as measured_cost,
        count(
            case
                when
                    states.state is null
                    or steps.is_ghost <> states.is_ghost
                    or steps.state_order <> states.state_order
                    then 1
            end
        ) as unknown_step_count

    from steps
    left join states on steps.state = states.state
    group by steps.usage_date, steps.cluster, steps.currency

),

compared as (

    select
        coalesce(promised_days.usage_date, measured_days.usage_date) as usage_date,
        coalesce(promised_days.cluster, measured_days.cluster) as cluster,
        coalesce(promised_days.currency, measured_days.currency) as currency,
        coalesce(promised_days.promised_us, 0) as promised,
        coalesce(measured_days.measured_us, 0) as measured,
        coalesce(measured_days.measured_us, 0) - coalesce(promised_days.promised_us, 0) as difference,
        cast(promised_days.promised_cost as decimal(18, 6)) as promised_cost,
        cast(measured_days.measured_cost as decimal(18, 6)) as measured_cost,
        coalesce(measured_days.unknown_step_count, 0) as unknown_step_count

    from promised_days
    full outer join measured_days
        on
            promised_days.usage_date = measured_days.usage_date
            and promised_days.cluster = measured_days.cluster
            and promised_days.currency = measured_days.currency

),

final as (

    select
        compared.*,
        difference = 0
        and unknown_step_count = 0
        and coalesce(promised_cost = measured_cost, promised_cost is null and measured_cost is null) as holds

    from compared

)

select * from final
