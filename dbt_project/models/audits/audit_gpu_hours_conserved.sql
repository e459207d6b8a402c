{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

with

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
        hour_start_at,
        cluster,
        gpu_id,
        max(usage_date) as usage_date,
        cast(sum(inventory_us) as bigint) as promised_us

    from device_hours
    group by hour_start_at, cluster, gpu_id

),

measured_hours as (

    select
        hour_start_at,
        cluster,
        gpu_id,
        max(usage_date) as usage_date,
        cast(sum(gpu_microseconds) as bigint) as measured_us,
        count(case when gpu_microseconds < 0 then 1 end) as negative_row_count

    from ledger
    group by hour_start_at, cluster, gpu_id

),

-- a device-hour on one side only is a difference like any other
compared_hours as (

    select
        coalesce(promised_hours.usage_date, measured_hours.usage_date) as usage_date,
        coalesce(promised_hours.cluster, measured_hours.cluster) as cluster,
        coalesce(promised_hours.promised_us, 0) as promised_us,
        coalesce(measured_hours.measured_us, 0) as measured_us,
        coalesce(measured_hours.negative_row_count, 0) as negative_row_count

    from promised_hours
    full outer join measured_hours
        on
            promised_hours.hour_start_at = measured_hours.hour_start_at
            and promised_hours.cluster = measured_hours.cluster
            and promised_hours.gpu_id = measured_hours.gpu_id

),

audited as (

    select
        usage_date,
        cluster,
        cast(sum(promised_us) as bigint) as promised,
        cast(sum(measured_us) as bigint) as measured,
        cast(sum(measured_us) - sum(promised_us) as bigint) as difference,
        count(case when measured_us <> promised_us then 1 end) as device_hours_off,
        cast(sum(negative_row_count) as bigint) as negative_row_count

    from compared_hours
    group by usage_date, cluster

),

final as (

    select
        audited.*,
        difference = 0 and device_hours_off = 0 and negative_row_count = 0 as holds

    from audited

)

select * from final
