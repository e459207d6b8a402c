-- The promise that energy is counted once: what the ledger's rows of a device-hour used is what the device used in that
-- hour, and over a day no more than its samples say. A device-hour that does not hold keeps the build from being published:
-- kWh, and the energy part of a rate card's price, are wrong there.

{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

with

-- the days before as well, for what reaches over midnight
samples as (

    select * from {{ ref('mart_telemetry_quality_daily') }}

),

device_hours as (

    select * from {{ ref('int_device_hours') }}
    where {{ in_touched_days('usage_date') }}

),

ledger as (

    select * from {{ ref('fct_gpu_ledger_hourly') }}
    where {{ in_touched_days('usage_date') }}

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
        device_hours.usage_date,
        device_hours.cluster,
        device_hours.gpu_id,
        coalesce(device_hours.energy_joules, 0.0) as promised_joules,
        coalesce(measured_hours.joules, 0.0) as measured_joules,
        coalesce(measured_hours.row_count, 0) as row_count,
        coalesce(measured_hours.negative_row_count, 0) as negative_row_count

    from device_hours
    left join measured_hours
        on
            device_hours.cluster = measured_hours.cluster
            and device_hours.gpu_id = measured_hours.gpu_id
            and device_hours.hour_start_at = measured_hours.hour_start_at

),

-- readings of several sources, and of the slots of one card, are all in the samples' energy, so that it is the most
sampled_days as (

    select
        usage_date,
        cluster,
        gpu_id,
        sum(energy_kwh) * 3.6e6 as joules

    from samples
    group by usage_date, cluster, gpu_id

),

device_days as (

    select
        compared.usage_date,
        compared.cluster,
        compared.gpu_id,
        sum(compared.measured_joules) as measured_joules,
        sum(compared.row_count) as row_count

    from compared
    group by compared.usage_date, compared.cluster, compared.gpu_id

),

above_samples as (

    select
        device_days.usage_date,
        device_days.cluster,
        count(*) as device_days_above

    from device_days
    left join sampled_days
        on
            device_days.usage_date = sampled_days.usage_date
            and device_days.cluster = sampled_days.cluster
            and device_days.gpu_id = sampled_days.gpu_id
    -- where no reading begins on a day, it has the rest of the last one of the day before
    left join sampled_days as days_before
        on
            device_days.usage_date = days_before.usage_date + 1
            and device_days.cluster = days_before.cluster
            and device_days.gpu_id = days_before.gpu_id
    where
        device_days.measured_joules
        > coalesce(sampled_days.joules, days_before.joules, 0.0) * (1 + 1e-9) + 1e-2 + 1e-5 * device_days.row_count
    group by device_days.usage_date, device_days.cluster

),

audited as (

    select
        usage_date,
        cluster,
        -- the order of an addition shows in the last digits, and the same day must say the same
        round(sum(promised_joules) / 3.6e6, 9) as promised,
        round(sum(measured_joules) / 3.6e6, 9) as measured,
        round((sum(measured_joules) - sum(promised_joules)) / 3.6e6, 9) as difference,
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
        coalesce(above_samples.device_days_above, 0) as device_days_above,
        audited.device_hours_off = 0 and coalesce(above_samples.device_days_above, 0) = 0 as holds

    from audited
    left join above_samples
        on audited.usage_date = above_samples.usage_date and audited.cluster = above_samples.cluster

)

select * from final
