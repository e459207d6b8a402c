-- How much of each hour that a training or batch run held was worth it. Within an hour a run's hold is taken as even, so
-- that the hour in which its last checkpoint lies is good for the part before it.

with

ledger as (

    select
        usage_date,
        hour_start_at,
        cluster,
        gpu_model,
        run_id,
        workload_id,
        currency,
        cast(sum(gpu_microseconds) as bigint) as held_us

    from {{ ref('fct_gpu_ledger_hourly') }}
    where run_id <> 'unallocated' and {{ in_repriced_days('usage_date') }}
    group by usage_date, hour_start_at, cluster, gpu_model, run_id, workload_id, currency

),

goodput as (

    select * from {{ ref('int_run_ends_daily') }}
    where good_until_at is not null and {{ in_repriced_days('usage_date') }}

),

judged as (

    select
        ledger.usage_date,
        ledger.hour_start_at,
        ledger.cluster,
        ledger.gpu_model,
        ledger.run_id,
        ledger.workload_id,
        ledger.currency,
        ledger.held_us,
        case
            when goodput.good_until_at >= least(goodput.held_until_at, ledger.hour_start_at + interval 1 hour)
                then cast(ledger.held_us as double)
            when goodput.good_until_at <= greatest(goodput.held_from_at, ledger.hour_start_at) then 0.0
            else cast(ledger.held_us as double)
                * {{ microseconds_between('greatest(goodput.held_from_at, ledger.hour_start_at)', 'goodput.good_until_at') }}
                / {{ microseconds_between(
                    'greatest(goodput.held_from_at, ledger.hour_start_at)',
                    'least(goodput.held_until_at, ledger.hour_start_at + interval 1 hour)'
                ) }}
        end as goodput_us

    from ledger
    inner join goodput on ledger.usage_date = goodput.usage_date and ledger.run_id = goodput.run_id

)

select * from judged
