{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

with

ledger_hours as (

    select * from {{ ref('int_gpu_ledger_hours') }}
    where {{ in_touched_days('usage_date') }}

),

observed as (

    select
        usage_date,
        cluster,
        cast(sum(
            case when state not in ('out_of_service', 'unallocated', 'borrowed') then gpu_microseconds else 0 end
        ) as bigint) as held_us,
        cast(sum(case when state = 'unobserved' then gpu_microseconds else 0 end) as bigint) as unobserved_us

    from ledger_hours
    group by usage_date, cluster

)

select * from observed
