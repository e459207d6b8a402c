{{ config(
    materialized='incremental',
    incremental_strategy='replace_days',
    meta={'days': 'landed', 'landed_table': 'gpu_inventory', 'day_column': 'dt'}
) }}

-- Of a day's inventory records the first and the last of each device, and those beside a change: whoever asks what a device
-- was, where it sat and since when finds it here without reading every sighting of all time. All slots of a device that
-- were recorded at one instant stand or go together, since together they are its layout.

{% set told = [
    'node', 'slot_uuid', 'mig_profile', 'compute_slices', 'card_slices', 'gpu_instance_id', 'gpu_model',
    'memory_total_bytes', 'pci_bus_id', 'gpu_index', 'serial', 'driver_version', 'provider', 'provider_resource_id',
    'region', 'zone', 'rack'
] %}

with

inventory as (

    select * from {{ ref('stg_landing__gpu_inventory') }}
    where {{ in_landed_days('gpu_inventory') }}

),

texts as (

    select
        cluster,
        gpu_uuid,
        seen_at,
        dt,
        concat_ws(
            '|',
            {% for name in told -%}
            coalesce(cast({{ name }} as varchar), ''){{ ',' if not loop.last }}
            {% endfor -%}
        ) as facts

    from inventory

),

records as (

    select
        cluster,
        gpu_uuid,
        seen_at,
        dt,
        {{ joined_text('facts', 'facts') }} as facts

    from texts
    group by cluster, gpu_uuid, seen_at, dt

),

followed as (

    select
        records.*,
        lag(facts) over (partition by dt, cluster, gpu_uuid order by seen_at nulls last) as facts_before,
        lead(facts) over (partition by dt, cluster, gpu_uuid order by seen_at nulls last) as facts_after

    from records

),

changes as (

    select * from followed
    where facts_before is null or facts_after is null or facts <> facts_before or facts <> facts_after

)

select
    inventory.cluster,
    inventory.gpu_uuid,
    inventory.seen_at,
    {% for name in told -%}
    inventory.{{ name }},
    {% endfor -%}
    inventory.dt

from inventory
inner join changes
    on
        inventory.dt = changes.dt
        and inventory.cluster = changes.cluster
        and inventory.gpu_uuid = changes.gpu_uuid
        and inventory.seen_at = changes.seen_at
