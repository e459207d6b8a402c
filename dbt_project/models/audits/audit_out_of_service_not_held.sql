-- The promise of semantics 2: time out of service is not held, whatever the scheduler says. Promised is the time that the
-- states of nodes and devices say they were down, in maintenance or lost; a drained device is out of service while nobody
-- holds it, so that the ledger may say up to that much more. A device-hour that does not hold keeps the build from being
-- published: compare `int_gpu_state_spans` with the ledger there.

{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

with

states as (

    select * from {{ ref('int_gpu_state_spans') }}
    where {{ in_touched_days('usage_date') }}

),

ledger as (

    select * from {{ ref('fct_gpu_ledger_hourly') }}
    where {{ in_touched_days('usage_date') }}

),

state_hours as (

    select
        states.*,
        {{ each_touched('hour', 'states.started_at', 'states.ended_at') }} as hour_start_at

    from states

),

told as (

    select
        usage_date,
        cluster,
        gpu_id,
        hour_start_at,
        cast(sum(state_us) as bigint) as inventory_us,
        cast(sum(case when state in ('down', 'maintenance', 'lost') then state_us else 0 end) as bigint) as out_us,
        cast(sum(case when state = 'drained' then state_us else 0 end) as bigint) as drained_us

    from (
        select
            state_hours.*,
            {{ microseconds_between(
                'greatest(started_at, hour_start_at)', 'least(ended_at, hour_start_at + interval 1 hour)'
            ) }} as state_us
        from state_hours
    ) as state_pieces
    group by usage_date, cluster, gpu_id, hour_start_at

),

measured as (

    select
        usage_date,
        cluster,
        gpu_id,
        hour_start_at,
        cast(sum(case when state = 'out_of_service' then gpu_microseconds else 0 end) as bigint) as out_us,
        cast(sum(case when run_id <> 'unallocated' then gpu_microseconds else 0 end) as bigint) as held_us,
        count(*) as row_count

    from ledger
    group by usage_date, cluster, gpu_id, hour_start_at

),

-- implied devices have no states: they are never out of service
compared as (

    select
        measured.usage_date,
        measured.cluster,
        measured.row_count,
        measured.out_us as measured_us,
        measured.held_us,
        coalesce(told.out_us, 0) as told_us,
        coalesce(told.drained_us, 0) as drained_us,
        case when told.gpu_id is null then measured.held_us else told.inventory_us - told.out_us end as in_service_us

    from measured
    left join told
        on
            measured.cluster = told.cluster
            and measured.gpu_id = told.gpu_id
            and measured.hour_start_at = told.hour_start_at

),

audited as (

    select
        usage_date,
        cluster,
        cast(sum(told_us) as bigint) as promised,
        cast(sum(measured_us) as bigint) as measured,
        cast(sum(measured_us) - sum(told_us) as bigint) as difference,
        cast(sum(drained_us) as bigint) as drained_us,
        count(
            case when measured_us < told_us - row_count or measured_us > told_us + drained_us + row_count then 1 end
        ) as device_hours_off,
        count(case when held_us > in_service_us + row_count then 1 end) as device_hours_held_above

    from compared
    group by usage_date, cluster

),

final as (

    select
        audited.*,
        device_hours_off = 0 and device_hours_held_above = 0 as holds

    from audited

)

select * from final
