-- The days this build replaces. A landed row touches its day, an interval that changed (a run seen again with a later end, a
-- node state, a price) only the days in which it changed; and, because some rules look half an hour over midnight and
-- inventory bridges up to a day, one day on either side. Days whose samples or node states changed are
-- rolled up again. Of days whose samples have expired, which are sealed, only the money is worked out again, and only where
-- money changed (semantics 11). A full refresh replaces everything and asks for none.

-- depends_on: {{ ref('int_run_changes') }}
-- depends_on: {{ ref('int_hold_changes') }}
-- depends_on: {{ ref('int_node_state_changes') }}
-- depends_on: {{ ref('int_slot_name_changes') }}
-- depends_on: {{ ref('int_price_changes') }}
-- depends_on: {{ ref('int_context_changes') }}
-- depends_on: {{ ref('int_workload_changes') }}
-- depends_on: {{ ref('int_device_changes') }}
-- depends_on: {{ ref('int_usage_changes') }}
-- depends_on: {{ ref('int_node_states_resolved') }}
-- depends_on: {{ ref('int_billing_delivered_through') }}
-- depends_on: {{ ref('stg_landing__billing_lines') }}
-- depends_on: {{ ref('int_gpu_inventory_changes') }}
with

build_window as (

    select * from {{ source('control', 'build_window') }}

),

days_landed as (

    select * from {{ source('control', 'days_landed') }}

),

sealed_days as (

    select * from {{ source('control', 'sealed_days') }}

),

{% if flags.FULL_REFRESH %}

touched as (

    select
        cast(null as date) as usage_date,
        false as is_rolled_up,
        false as is_fleet,
        false as is_money

    from build_window
    where false

),

{% else %}

run_days as (

    {{ days_changed('int_run_changes', 'run_changes_built') }}

),

hold_days as (

    {{ days_changed('int_hold_changes', 'hold_changes_built') }}

),

node_state_days as (

    {{ days_changed('int_node_state_changes', 'node_state_changes_built') }}

),

slot_name_days as (

    {{ days_changed('int_slot_name_changes', 'slot_name_changes_built') }}

),

-- other names for the workloads of a day
workload_days as (

    select distinct built.usage_date
    from {{ source('control', 'workload_names_built') }} as built
    inner join {{ ref('int_workload_changes') }} as changes on built.workload_id = changes.change_key
    where built.fingerprint <> changes.fingerprint

),

-- other facts of the devices of a day
device_days as (

    select distinct built.usage_date
    from {{ source('control', 'devices_built') }} as built
    left join {{ ref('int_device_changes') }} as changes on built.change_key = changes.change_key
    where built.fingerprint <> coalesce(changes.fingerprint, '')

),

-- usage that became another workload's; rows that landed touch their days themselves
usage_days as (

    select distinct
        cast({{ each_touched(
            'day', 'least(changes.started_at, built.started_at)', 'greatest(changes.ended_at, built.ended_at)'
        ) }} as date) as usage_date

    from {{ source('control', 'usage_changes_built') }} as built
    inner join {{ ref('int_usage_changes') }} as changes on built.change_key = changes.change_key
    where built.fingerprint <> changes.fingerprint

),

price_days as (

    {{ days_changed('int_price_changes', 'price_changes_built') }}

),

context_days as (

    {{ days_changed('int_context_changes', 'context_changes_built') }}

),

-- a card seen on a day may be the one that a run held for longer: a run that began up to a day after it was seen, or before
-- by the grace that inventory gives, by a clock that is off by the most that is set right
late_sightings as (

    select distinct {{ each_touched('day', 'changes.started_at', 'changes.ended_at') }} as usage_date
    from {{ ref('int_hold_changes') }} as changes
    inner join days_landed
        on
            days_landed.table_name in ('gpu_samples', 'gpu_inventory')
            and changes.started_at >= days_landed.usage_date
                - interval {{ var('inventory_absent_minutes') + var('clock_skew_most_minutes') }} minute
            and changes.started_at < days_landed.usage_date + interval 1 day + interval {{ var('inventory_carry_hours') }} hour
                + interval {{ var('clock_skew_most_minutes') }} minute

),

touched as (

    select
        usage_date,
        table_name in ('gpu_samples', 'pending') as is_rolled_up,
        table_name in ('gpu_samples', 'gpu_inventory', 'gpu_processes', 'pending') as is_fleet,
        table_name in ('billing_lines', 'pending') as is_money

    from days_landed

    union all

    -- the demand of a day's first hour looks at the minutes before midnight (rule 6)
    select usage_date + 1, false, false, false
    from days_landed
    where table_name = 'inference_usage'

    union all

    select cast(usage_date as date), false, true, false
    from late_sightings

    union all

    select usage_date, false, true, false
    from run_days

    union all

    -- on a drained node a device's service ends with its holder, and its samples are cut there
    select
        usage_date,
        exists(
            select 1
            from {{ ref('int_node_states_resolved') }} as node_states
            where
                node_states.state = 'drained'
                and cast(node_states.started_at as date) <= hold_days.usage_date
                and cast(node_states.ended_at as date) >= hold_days.usage_date
        ),
        true,
        false

    from hold_days

    union all

    select usage_date, true, true, false
    from node_state_days

    union all

    select usage_date, false, true, false
    from slot_name_days

    union all

    select usage_date, false, false, false
    from workload_days

    union all

    select usage_date, false, false, false
    from device_days

    union all

    select usage_date, false, true, false
    from usage_days

    union all

    select usage_date, false, false, true
    from price_days

    union all

    select usage_date, false, false, false
    from context_days

),

{% endif %}

windowed as (

    select
        cast({{ each_touched('day', 'start_at', 'end_at') }} as date) as usage_date,
        true as is_rolled_up,
        false as is_fleet

    from (
        select
            coalesce(build_window.start_at, (select min(held_from_at) from {{ ref('int_runs') }}), build_window.end_at) as start_at,
            coalesce(
                build_window.end_at, (select max(data_through_at) from {{ source('control', 'data_through') }})
            ) as end_at
        from build_window
        where build_window.start_at is not null or build_window.end_at is not null
    ) as bounds
    where start_at < end_at

),

spread as (

    select usage_date, is_rolled_up, is_money
    from touched

    union all

    select usage_date - 1, false, false
    from touched
    where is_fleet

    union all

    select usage_date + 1, false, false
    from touched
    where is_fleet

),

{% if not flags.FULL_REFRESH %}

-- a charge over several days falls to them by device-time: more of it on one day is less on the others
repriced as (

    {{ days_repriced('spread') }}

),

{% endif %}

-- a window names its days itself
chosen as (

    select windowed.usage_date, windowed.is_rolled_up, true as is_money
    from windowed

    union all

    select spread.usage_date, spread.is_rolled_up, spread.is_money
    from spread
    cross join build_window
    where build_window.start_at is null and build_window.end_at is null

    {% if not flags.FULL_REFRESH %}

    union all

    select repriced.usage_date, false, true
    from repriced
    cross join build_window
    where build_window.start_at is null and build_window.end_at is null

    {% endif %}

)

select
    cast(chosen.usage_date as date) as usage_date,
    bool_or(chosen.is_rolled_up and sealed_days.usage_date is null) as is_rolled_up,
    bool_or(sealed_days.usage_date is not null) as is_sealed

from chosen
left join sealed_days on chosen.usage_date = sealed_days.usage_date
where chosen.usage_date is not null and (sealed_days.usage_date is null or chosen.is_money)
group by chosen.usage_date
