-- The money of a device-hour is shared out over its parts by time, in millionths of the currency, like the time itself:
-- each part rounded down, the remaining units one each to the largest remainders, ties to the lowest id (semantics 1, 7).

{{ config(materialized='incremental', incremental_strategy='replace_days', meta={'days': 'priced'}) }}

with

ledger as (

    select * from {{ ref('int_gpu_ledger_hours') }}
    where {{ in_priced_days('usage_date') }}

),

device_hours as (

    select * from {{ ref('int_device_hours') }}
    where {{ in_priced_days('usage_date') }}

),

costs as (

    select * from {{ ref('int_device_hour_costs') }}
    where {{ in_priced_days('usage_date') }}

),

states as (

    select * from {{ ref('dim_states') }}

),

priced as (

    select
        ledger.*,
        states.state_order,
        costs.cost_source,
        costs.currency,
        costs.cost as device_cost,
        cast(abs(costs.cost) * 1000000 as decimal(38, 0)) * ledger.gpu_microseconds as unit_product,
        device_hours.inventory_us

    from ledger
    inner join device_hours
        on
            ledger.cluster = device_hours.cluster
            and ledger.gpu_id = device_hours.gpu_id
            and ledger.hour_start_at = device_hours.hour_start_at
    inner join costs
        on
            ledger.cluster = costs.cluster
            and ledger.gpu_id = costs.gpu_id
            and ledger.hour_start_at = costs.hour_start_at
    inner join states on ledger.state = states.state

),

rounded_down as (

    select
        priced.*,
        cast(floor_divided as decimal(38, 0)) as whole_units,
        unit_product - floor_divided * inventory_us as remainder_units

    from (
        select priced.*, {{ whole_quotient('unit_product', 'inventory_us') }} as floor_divided
        from priced
    ) as priced

),

ranked as (

    select
        rounded_down.*,
        sum(whole_units) over (partition by cluster, gpu_id, hour_start_at) as device_whole_units,
        row_number() over (
            partition by cluster, gpu_id, hour_start_at
            order by
                remainder_units desc nulls last,
                slot_id nulls last,
                run_id nulls last,
                state_order nulls last,
                state_reason nulls last,
                signal_source nulls last
        ) as remainder_rank

    from rounded_down

),

ledger_lines as (

    select
        hour_start_at,
        slot_id,
        run_id,
        state,
        state_reason,
        signal_source,
        cost_source,
        currency,
        usage_date,
        cluster,
        node,
        gpu_id,
        gpu_model,
        workload_id,
        is_ghost,
        gpu_microseconds,
        cast(gpu_hours as double) as gpu_hours,
        cast(energy_kwh as double) as energy_kwh,
        cast(
            sign(device_cost)
            * (
                whole_units
                + case
                    when remainder_rank <= abs(device_cost) * 1000000 - device_whole_units then 1
                    else 0
                end
            ) / cast(1000000 as decimal(18, 0))
            as decimal(18, 6)
        ) as cost

    from ranked

),

final as (

    select
        ledger_lines.*,
        {{ in_reporting_currency('ledger_lines.cost') }} as cost_reporting,
        coalesce(exchange_rates.reporting_currency, 'unknown') as reporting_currency

    from ledger_lines
    {{ join_exchange_rate('ledger_lines') }}

)

select * from final
