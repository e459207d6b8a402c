-- The promise of semantics 2: the fractions of a device's slots add up to 1 at any instant. Promised is the time that
-- devices were in inventory, measured the time of their slots in the layouts of that time, each times its fraction. A
-- device-day that does not hold keeps the build from being published: look at its layouts in `dim_gpu_history`.

{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

with

states as (

    select * from {{ ref('int_gpu_state_spans') }}
    where {{ in_touched_days('usage_date') }}

),

layouts as (

    select * from {{ ref('int_gpu_layouts') }}

),

promised_days as (

    select
        usage_date,
        cluster,
        gpu_id,
        cast(sum({{ microseconds_between('started_at', 'ended_at') }}) as bigint) as promised_us

    from states
    group by usage_date, cluster, gpu_id

),

measured_days as (

    select
        states.usage_date,
        states.cluster,
        states.gpu_id,
        sum(
            layouts.slot_fraction * {{ microseconds_between(
                'greatest(states.started_at, layouts.valid_from_at)', 'least(states.ended_at, layouts.valid_until_at)'
            ) }}
        ) as measured_us,
        bool_or(layouts.slot_fraction <= 0.0 or layouts.slot_fraction > 1.0) as has_no_fraction

    from states
    inner join layouts
        on
            states.cluster = layouts.cluster
            and states.gpu_id = layouts.gpu_id
            and states.started_at < layouts.valid_until_at
            and states.ended_at > layouts.valid_from_at
    group by states.usage_date, states.cluster, states.gpu_id

),

compared as (

    select
        promised_days.usage_date,
        promised_days.cluster,
        promised_days.promised_us,
        coalesce(measured_days.measured_us, 0) as measured_us,
        coalesce(measured_days.has_no_fraction, false) as has_no_fraction

    from promised_days
    left join measured_days
        on
            promised_days.usage_date = measured_days.usage_date
            and promised_days.cluster = measured_days.cluster
            and promised_days.gpu_id = measured_days.gpu_id

),

audited as (

    select
        usage_date,
        cluster,
        cast(sum(promised_us) as bigint) as promised,
        cast(round(sum(measured_us)) as bigint) as measured,
        cast(round(sum(measured_us)) - sum(promised_us) as bigint) as difference,
        count(case when abs(measured_us - promised_us) > 1 or has_no_fraction then 1 end) as device_days_off

    from compared
    group by usage_date, cluster

),

final as (

    select
        audited.*,
        device_days_off = 0 as holds

    from audited

)

select * from final
