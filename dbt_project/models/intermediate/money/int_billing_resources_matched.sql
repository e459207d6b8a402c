-- Which device each resource of a bill is. Bills and nodes name one machine in several ways: by its whole path or ARN, by
-- the last part of it, or by the number that Google gives it besides its name. Where neither of two keys is the other, the
-- shorter may be the end of the longer, if that leaves no choice: a name that two machines end with, in two projects, is
-- neither of them, and its money is shown as billed without telemetry.

with

lines as (

    select * from {{ ref('int_billing_lines_current') }}

),

inventory as (

    select * from {{ ref('int_gpu_inventory_changes') }}

),

bill_resources as (

    select distinct
        resource_key as bill_key,
        lower(resource_alias) as resource_alias

    from lines
    where resource_key is not null

),

bill_keys as (

    select distinct
        bill_key,
        {{ resource_name('bill_key') }} as resource_name

    from bill_resources

),

device_ids as (

    select distinct provider_resource_id
    from inventory
    where provider_resource_id is not null

),

device_keys as (

    select distinct {{ resource_key('provider_resource_id') }} as device_key
    from device_ids
    where {{ resource_key('provider_resource_id') }} is not null

),

exact as (

    select
        bill_keys.bill_key,
        device_keys.device_key

    from bill_keys
    inner join device_keys on bill_keys.bill_key = device_keys.device_key

),

-- the number of a machine in a scale set is no name, and a disk or a network card may have the name of its machine
named as (

    select
        bill_keys.bill_key,
        device_keys.device_key

    from bill_keys
    inner join device_keys
        on
            bill_keys.resource_name = {{ resource_name('device_keys.device_key') }}
            and bill_keys.bill_key <> device_keys.device_key
    left join exact on bill_keys.bill_key = exact.bill_key
    where
        exact.bill_key is null
        and length(bill_keys.resource_name) >= 3
        and (length(bill_keys.resource_name) >= 8 or translate(bill_keys.resource_name, '0123456789', '') <> '')
        and (
            bill_keys.bill_key not like '%/providers/%'
            or bill_keys.bill_key like '%/virtualmachines/%'
        )
        and bill_keys.bill_key not like '%/disks/%'
        and (
            right(bill_keys.bill_key, length(device_keys.device_key) + 1)
            in (concat('/', device_keys.device_key), concat(':', device_keys.device_key))
            or right(device_keys.device_key, length(bill_keys.bill_key) + 1)
            in (concat('/', bill_keys.bill_key), concat(':', bill_keys.bill_key))
        )

),

aliased as (

    select
        bill_resources.bill_key,
        device_keys.device_key

    from bill_resources
    inner join device_keys on bill_resources.resource_alias = {{ resource_name('device_keys.device_key') }}
    left join exact on bill_resources.bill_key = exact.bill_key
    where exact.bill_key is null

),

by_name as (

    select
        bill_key,
        device_key

    from named

    union

    select
        bill_key,
        device_key

    from aliased

),

counted as (

    select
        by_name.*,
        count(*) over (partition by bill_key) as devices_of_bill_key,
        count(*) over (partition by device_key) as bill_keys_of_device

    from by_name

),

final as (

    select
        bill_key,
        device_key,
        true as is_exact

    from exact

    union all

    select
        bill_key,
        device_key,
        false as is_exact

    from counted
    where devices_of_bill_key = 1 and bill_keys_of_device = 1

)

select * from final
