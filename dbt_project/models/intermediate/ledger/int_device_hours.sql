{{ config(materialized='incremental', incremental_strategy='replace_days') }}

with

states as (

    select * from {{ ref('int_gpu_state_spans') }}

),

spans as (

    select * from {{ ref('int_slot_spans') }}

),

slot_energy as (

    select
        slot_number,
        date_trunc('hour', minute_start_at) as hour_start_at,
        bucket_start_at,
        slot_fraction,
        energy_joules

    from {{ ref('int_gpu_minutes') }}
    where energy_joules is not null

),

slots as (

    select * from {{ ref('int_slots_numbered') }}

),

inventory as (

    select
        cluster,
        gpu_uuid as gpu_id,
        max_by(gpu_model, seen_at) as gpu_model,
        max_by(provider, seen_at) as provider,
        max_by(provider_resource_id, seen_at) as provider_resource_id

    from {{ ref('int_gpu_inventory_changes') }}
    group by cluster, gpu_uuid

),

known as (

    select
        cluster,
        node,
        gpu_id,
        usage_date,
        started_at,
        ended_at,
        1.0 as weight,
        cast(null as varchar) as implied_model,
        false as is_implied

    from states

    union all

    select
        cluster,
        node,
        gpu_id,
        usage_date,
        started_at,
        ended_at,
        held_share as weight,
        gpu_model as implied_model,
        true as is_implied

    from spans
    where is_implied

),

touching as (

    select
        known.*,
        {{ each_touched('hour', 'known.started_at', 'known.ended_at') }} as hour_start_at

    from known
    where {{ in_touched_days('usage_date') }}

),

hours as (

    select
        hour_start_at,
        usage_date,
        cluster,
        max(node) as node,
        gpu_id,
        bool_or(is_implied) as is_implied,
        max(implied_model) as implied_model,
        cast(round(sum(
            weight * {{ microseconds_between(
                'greatest(started_at, hour_start_at)', 'least(ended_at, hour_start_at + interval 1 hour)'
            ) }}
        )) as bigint) as inventory_us

    from touching
    group by hour_start_at, usage_date, cluster, gpu_id

),

whole_card_energy as (

    select
        slot_number,
        hour_start_at,
        sum(energy_joules) as energy_joules

    from slot_energy
    where slot_fraction = 1.0
    group by slot_number, hour_start_at

),

-- of a partitioned card the slots that were read speak for those that were not
shared_card_energy as (

    select
        slots.cluster,
        slots.gpu_id,
        slot_energy.hour_start_at,
        slot_energy.bucket_start_at,
        sum(slot_energy.energy_joules) / sum(slot_energy.slot_fraction) as energy_joules

    from slot_energy
    inner join slots on slot_energy.slot_number = slots.slot_number
    where slot_energy.slot_fraction < 1.0
    group by slots.cluster, slots.gpu_id, slot_energy.hour_start_at, slot_energy.bucket_start_at

),

energy as (

    select
        slots.cluster,
        slots.gpu_id,
        whole_card_energy.hour_start_at,
        sum(whole_card_energy.energy_joules) as energy_joules

    from whole_card_energy
    inner join slots on whole_card_energy.slot_number = slots.slot_number
    group by slots.cluster, slots.gpu_id, whole_card_energy.hour_start_at

    union all

    select
        cluster,
        gpu_id,
        hour_start_at,
        sum(energy_joules) as energy_joules

    from shared_card_energy
    group by cluster, gpu_id, hour_start_at

),

energy_summed as (

    select
        cluster,
        gpu_id,
        hour_start_at,
        sum(energy_joules) as energy_joules

    from energy
    group by cluster, gpu_id, hour_start_at

),

described as (

    select
        hours.hour_start_at,
        hours.usage_date,
        hours.cluster,
        hours.node,
        hours.gpu_id,
        coalesce(inventory.gpu_model, hours.implied_model, 'unknown') as gpu_model,
        inventory.provider,
        inventory.provider_resource_id,
        hours.is_implied,
        hours.inventory_us,
        energy_summed.energy_joules

    from hours
    left join inventory on hours.cluster = inventory.cluster and hours.gpu_id = inventory.gpu_id
    left join energy_summed
        on
            hours.cluster = energy_summed.cluster
            and hours.gpu_id = energy_summed.gpu_id
            and hours.hour_start_at = energy_summed.hour_start_at

)

select * from described
where inventory_us > 0
