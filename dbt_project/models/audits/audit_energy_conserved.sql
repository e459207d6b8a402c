-- The promise that energy is counted once: what the ledger's rows of a device-hour used is what the device's minutes used.
-- Promised are the minutes of the samples where a whole card has one series of samples; of partitioned cards and of
-- those with several sources, whose readings speak for each other, the energy of the device-hour. A device-hour that does not
-- hold keeps the build from being published: kWh, and the energy part of a rate card's price, are wrong there.

{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

with

minutes as (

    select
        usage_date,
        cluster,
        gpu_uuid as gpu_id,
        date_trunc('hour', bucket_start_at) as hour_start_at,
        sum(energy_joules) as joules,
        min(source) = max(source) and count(slot_uuid) = 0 and min(node) = max(node) as is_one_series

    from {{ ref('int_gpu_minutes_clocked') }}
    where {{ in_touched_days('usage_date') }}
    group by usage_date, cluster, gpu_uuid, date_trunc('hour', bucket_start_at)

),

partitioned as (

    select distinct
        cluster,
        gpu_id

    from {{ ref('int_gpu_layouts') }}
    where card_slices > 1

),

device_hours as (

    select * from {{ ref('int_device_hours') }}
    where {{ in_touched_days('usage_date') }}

),

ledger as (

    select * from {{ ref('fct_gpu_ledger_hourly') }}
    where {{ in_touched_days('usage_date') }}

),

promised_hours as (

    select
        device_hours.usage_date,
        device_hours.cluster,
        device_hours.gpu_id,
        device_hours.hour_start_at,
        case
            when minutes.is_one_series and partitioned.gpu_id is null then minutes.joules
            else device_hours.energy_joules
        end as joules

    from device_hours
    left join minutes
        on
            device_hours.cluster = minutes.cluster
            and device_hours.gpu_id = minutes.gpu_id
            and device_hours.hour_start_at = minutes.hour_start_at
    left join partitioned on device_hours.cluster = partitioned.cluster and device_hours.gpu_id = partitioned.gpu_id

),

measured_hours as (

    select
        usage_date,
        cluster,
        gpu_id,
        hour_start_at,
        sum(energy_kwh) * 3.6e6 as joules,
        count(*) as row_count,
        count(case when energy_kwh < 0.0 then 1 end) as negative_row_count

    from ledger
    group by usage_date, cluster, gpu_id, hour_start_at

),

compared as (

    select
        promised_hours.usage_date,
        promised_hours.cluster,
        coalesce(promised_hours.joules, 0.0) as promised_joules,
        coalesce(measured_hours.joules, 0.0) as measured_joules,
        coalesce(measured_hours.row_count, 0) as row_count,
        coalesce(measured_hours.negative_row_count, 0) as negative_row_count

    from promised_hours
    left join measured_hours
        on
            promised_hours.cluster = measured_hours.cluster
            and promised_hours.gpu_id = measured_hours.gpu_id
            and promised_hours.hour_start_at = measured_hours.hour_start_at

),

audited as (

    select
        usage_date,
        cluster,
        sum(promised_joules) / 3.6e6 as promised,
        sum(measured_joules) / 3.6e6 as measured,
        (sum(measured_joules) - sum(promised_joules)) / 3.6e6 as difference,
        -- each row is rounded to 12 digits of a kWh
        count(
            case
                when
                    abs(measured_joules - promised_joules) > 1e-5 * (1 + row_count) + 1e-9 * promised_joules
                    or negative_row_count > 0
                    then 1
            end
        ) as device_hours_off

    from compared
    group by usage_date, cluster

),

final as (

    select
        audited.*,
        device_hours_off = 0 as holds

    from audited

)

select * from final
