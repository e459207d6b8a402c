-- Minutes in which requests waited for a service: demand was there, whatever its GPUs did.

with

usage as (

    select * from {{ ref('int_inference_usage_owned') }}

),

waiting as (

    select
        workload_id,
        {{ each_touched('minute', 'interval_start_at', 'interval_end_at') }} as minute_start_at

    from usage
    where waiting_requests > 0 and {{ in_ledger_days('usage_date') }}

),

minutes as (

    select distinct workload_id, minute_start_at
    from waiting

)

select * from minutes
