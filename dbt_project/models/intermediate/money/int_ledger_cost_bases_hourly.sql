{{ config(
    materialized='incremental', incremental_strategy='replace_days', meta={'days': 'priced'},
    on_schema_change='append_new_columns'
) }}

-- The three cost bases of each workload and hour (semantics 7): `allocation_cost` of the time held, `usage_cost` of
-- the productive time, and `fully_loaded_cost`: the allocation, plus what was borrowed on the slots held, to their
-- holders by share, plus the unallocated and out-of-service cost of the same cluster, GPU model, currency and hour,
-- plus the unused commitments of the same provider, currency and hour, each pro rata to the allocation. Where nothing
-- was allocated the cost stays with the workload `unallocated`. All fully loaded costs add up to the ledger's cost and
-- the unused commitments, to the micro-unit.

with

ledger as (

    select * from {{ ref('fct_gpu_ledger_hourly') }}
    where {{ in_priced_days('usage_date') }}

),

device_costs as (

    select * from {{ ref('int_device_hour_costs') }}
    where {{ in_priced_days('usage_date') }}

),

commitments as (

    select * from {{ ref('int_commitment_unused_hours') }}
    where {{ in_priced_days('usage_date') }}

),

slot_hours as (

    select
        ledger.hour_start_at,
        ledger.usage_date,
        ledger.cluster,
        ledger.gpu_model,
        lower(coalesce(device_costs.provider_name, 'unknown')) as provider_key,
        ledger.currency,
        ledger.slot_id,
        ledger.workload_id,
        ledger.run_id = 'unallocated' as is_unallocated,
        ledger.run_id = 'unallocated' and ledger.state = 'borrowed' as is_borrowed,
        cast(sum(ledger.gpu_microseconds) as bigint) as gpu_us,
        {{ as_micros('sum(ledger.cost)') }} as cost_micros,
        {{ as_micros("sum(case when ledger.state = 'productive' then ledger.cost else 0 end)") }} as usage_micros

    from ledger
    left join device_costs
        on
            ledger.hour_start_at = device_costs.hour_start_at
            and ledger.cluster = device_costs.cluster
            and ledger.gpu_id = device_costs.gpu_id
    group by
        ledger.hour_start_at, ledger.usage_date, ledger.cluster, ledger.gpu_model,
        lower(coalesce(device_costs.provider_name, 'unknown')), ledger.currency, ledger.slot_id, ledger.workload_id,
        ledger.run_id = 'unallocated', ledger.run_id = 'unallocated' and ledger.state = 'borrowed'

),

held_slots as (

    select * from slot_hours
    where not is_unallocated

),

borrowed_slots as (

    select
        hour_start_at,
        cluster,
        slot_id,
        currency,
        sum(cost_micros) as borrowed_micros

    from slot_hours
    where is_borrowed
    group by hour_start_at, cluster, slot_id, currency

),

-- to the holders of the slot, by what each of them held of it
borrowed_weighed as (

    select
        held_slots.*,
        borrowed_slots.borrowed_micros

    from held_slots
    inner join borrowed_slots
        on
            held_slots.hour_start_at = borrowed_slots.hour_start_at
            and held_slots.cluster = borrowed_slots.cluster
            and held_slots.slot_id = borrowed_slots.slot_id
            and held_slots.currency = borrowed_slots.currency
    where borrowed_slots.borrowed_micros is not null

),

borrowed_shared as (

    {{ shared_out('borrowed_weighed', 'borrowed_micros', 'gpu_us', ['hour_start_at', 'cluster', 'slot_id', 'currency'], ['workload_id']) }}

),

held_parts as (

    select
        hour_start_at, usage_date, cluster, gpu_model, provider_key, currency, workload_id,
        gpu_us, cost_micros, usage_micros, cast(0 as bigint) as borrowed_micros
    from held_slots

    union all

    select
        hour_start_at, usage_date, cluster, gpu_model, provider_key, currency, workload_id,
        cast(0 as bigint) as gpu_us, cast(0 as bigint) as cost_micros, cast(0 as bigint) as usage_micros, part as borrowed_micros
    from borrowed_shared

),

held as (

    select
        hour_start_at,
        usage_date,
        cluster,
        gpu_model,
        provider_key,
        currency,
        workload_id,
        cast(sum(gpu_us) as bigint) as held_us,
        cast(sum(cost_micros) as bigint) as allocation_micros,
        cast(sum(usage_micros) as bigint) as usage_micros,
        cast(sum(borrowed_micros) as bigint) as borrowed_micros,
        greatest(cast(sum(cost_micros) as bigint), 0) as weight_micros

    from held_parts
    group by hour_start_at, usage_date, cluster, gpu_model, provider_key, currency, workload_id

),

-- what nobody held; borrowed time of a slot without a holder in that hour belongs here too
pool_rows as (

    select slot_hours.*
    from slot_hours
    left join (select distinct hour_start_at, cluster, slot_id, currency from borrowed_weighed) as borrowed_out
        on
            slot_hours.hour_start_at = borrowed_out.hour_start_at
            and slot_hours.cluster = borrowed_out.cluster
            and slot_hours.slot_id = borrowed_out.slot_id
            and slot_hours.currency = borrowed_out.currency
    where slot_hours.is_unallocated and not (slot_hours.is_borrowed and borrowed_out.slot_id is not null)

),

pools as (

    select
        hour_start_at,
        usage_date,
        cluster,
        gpu_model,
        currency,
        cast(sum(cost_micros) as bigint) as pool_micros

    from pool_rows
    group by hour_start_at, usage_date, cluster, gpu_model, currency

),

pool_weighed as (

    select
        held.*,
        pools.pool_micros

    from held
    inner join pools
        on
            held.hour_start_at = pools.hour_start_at
            and held.cluster = pools.cluster
            and held.gpu_model = pools.gpu_model
            and held.currency = pools.currency
    where pools.pool_micros is not null and held.weight_micros > 0

),

pool_shared as (

    {{ shared_out(
        'pool_weighed', 'pool_micros', 'weight_micros',
        ['hour_start_at', 'cluster', 'gpu_model', 'currency'], ['workload_id', 'provider_key']
    ) }}

),

commitment_hours as (

    select
        hour_start_at,
        usage_date,
        lower(provider_name) as provider_key,
        currency,
        {{ as_micros('sum(cost)') }} as commitment_micros

    from commitments
    group by hour_start_at, usage_date, lower(provider_name), currency

),

commitment_weighed as (

    select
        held.*,
        commitment_hours.commitment_micros

    from held
    inner join commitment_hours
        on
            held.hour_start_at = commitment_hours.hour_start_at
            and held.provider_key = commitment_hours.provider_key
            and held.currency = commitment_hours.currency
    where held.weight_micros > 0

),

commitment_shared as (

    {{ shared_out(
        'commitment_weighed', 'commitment_micros', 'weight_micros',
        ['hour_start_at', 'provider_key', 'currency'], ['workload_id', 'cluster', 'gpu_model']
    ) }}

),

pools_left as (

    select
        pools.hour_start_at,
        pools.usage_date,
        pools.cluster,
        pools.gpu_model,
        pools.currency,
        pools.pool_micros

    from pools
    left join (select distinct hour_start_at, cluster, gpu_model, currency from pool_weighed) as given_out
        on
            pools.hour_start_at = given_out.hour_start_at
            and pools.cluster = given_out.cluster
            and pools.gpu_model = given_out.gpu_model
            and pools.currency = given_out.currency
    where given_out.hour_start_at is null

),

commitments_left as (

    select
        commitment_hours.hour_start_at,
        commitment_hours.usage_date,
        commitment_hours.currency,
        commitment_hours.commitment_micros

    from commitment_hours
    left join (select distinct hour_start_at, provider_key, currency from commitment_weighed) as given_out
        on
            commitment_hours.hour_start_at = given_out.hour_start_at
            and commitment_hours.provider_key = given_out.provider_key
            and commitment_hours.currency = given_out.currency
    where given_out.hour_start_at is null

),

parts as (

    select
        hour_start_at, usage_date, cluster, gpu_model, workload_id, currency,
        held_us, allocation_micros, usage_micros, allocation_micros + borrowed_micros as loaded_micros
    from held

    union all

    select
        hour_start_at, usage_date, cluster, gpu_model, workload_id, currency,
        cast(0 as bigint) as held_us, cast(0 as bigint) as allocation_micros, cast(0 as bigint) as usage_micros,
        part as loaded_micros
    from pool_shared

    union all

    select
        hour_start_at, usage_date, cluster, gpu_model, workload_id, currency,
        cast(0 as bigint) as held_us, cast(0 as bigint) as allocation_micros, cast(0 as bigint) as usage_micros,
        part as loaded_micros
    from commitment_shared

    union all

    select
        hour_start_at, usage_date, cluster, gpu_model, 'unallocated' as workload_id, currency,
        cast(0 as bigint) as held_us, cast(0 as bigint) as allocation_micros, cast(0 as bigint) as usage_micros,
        pool_micros as loaded_micros
    from pools_left

    union all

    select
        hour_start_at, usage_date, 'unallocated' as cluster, 'unknown' as gpu_model, 'unallocated' as workload_id, currency,
        cast(0 as bigint) as held_us, cast(0 as bigint) as allocation_micros, cast(0 as bigint) as usage_micros,
        commitment_micros as loaded_micros
    from commitments_left

),

added as (

    select
        hour_start_at,
        usage_date,
        cluster,
        gpu_model,
        workload_id,
        currency,
        cast(sum(held_us) as bigint) as held_us,
        sum(allocation_micros) as allocation_micros,
        sum(usage_micros) as usage_micros,
        sum(loaded_micros) as loaded_micros

    from parts
    group by hour_start_at, usage_date, cluster, gpu_model, workload_id, currency

),

-- without a price there is no cost, not even a cost of nothing
final as (

    select
        hour_start_at,
        usage_date,
        cluster,
        gpu_model,
        workload_id,
        currency,
        held_us,
        case when currency <> 'unknown' then {{ from_micros('allocation_micros') }} end as allocation_cost,
        case when currency <> 'unknown' then {{ from_micros('usage_micros') }} end as usage_cost,
        case when currency <> 'unknown' then {{ from_micros('loaded_micros') }} end as fully_loaded_cost

    from added

)

select * from final
