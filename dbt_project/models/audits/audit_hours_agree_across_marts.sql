-- The promise that every table tells of the same hours: each day's figures of the marts are those of the ledger, to the
-- microsecond, state by state (held time beside idle time, which is not rounded, to a microsecond per row of the ledger).
-- A row that does not hold keeps the build from being published: its `table_name` and `measure` say which figure went
-- astray; build that day again, and if it stays, look at the sums of that mart.

{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

with

ledger as (

    select
        ledger.usage_date,
        ledger.cluster,
        ledger.workload_id,
        ledger.state,
        ledger.gpu_microseconds,
        states.is_ghost,
        ledger.workload_id <> 'unallocated' as is_held

    from {{ ref('fct_gpu_ledger_hourly') }} as ledger
    inner join {{ ref('dim_states') }} as states on ledger.state = states.state
    where {{ in_touched_days('ledger.usage_date') }}

),

workload_days as (

    select * from {{ ref('mart_workload_gpu_hours_daily') }}
    where {{ in_touched_days('usage_date') }}

),

steps as (

    select * from {{ ref('mart_ghost_capacity_daily') }}
    where state <> 'commitment_unused' and {{ in_touched_days('usage_date') }}

),

net_days as (

    select * from {{ ref('mart_gpu_net_daily') }}
    where {{ in_touched_days('usage_date') }}

),

idle_days as (

    select * from {{ ref('mart_gpu_idle_time_daily') }}
    where {{ in_touched_days('usage_date') }}

),

state_days as (

    select
        usage_date,
        cluster,
        state,
        cast(sum(gpu_microseconds) as bigint) as us

    from ledger
    group by usage_date, cluster, state

),

ledger_days as (

    select
        usage_date,
        cluster,
        count(*) as row_count,
        cast(sum(gpu_microseconds) as bigint) as capacity_us,
        cast(sum(case when is_held then gpu_microseconds else 0 end) as bigint) as held_us,
        cast(sum(case when is_ghost then gpu_microseconds else 0 end) as bigint) as ghost_us,
        cast(sum(case when is_ghost and is_held then gpu_microseconds else 0 end) as bigint) as held_ghost_us,
        cast(sum(case when state = 'productive' then gpu_microseconds else 0 end) as bigint) as productive_us,
        cast(sum(case when state = 'unobserved' then gpu_microseconds else 0 end) as bigint) as unobserved_us,
        cast(sum(case when state = 'unallocated' then gpu_microseconds else 0 end) as bigint) as unallocated_us,
        cast(sum(case when state = 'borrowed' then gpu_microseconds else 0 end) as bigint) as borrowed_us,
        cast(sum(case when state = 'out_of_service' then gpu_microseconds else 0 end) as bigint) as out_of_service_us

    from ledger
    group by usage_date, cluster

),

promised as (

    select usage_date, cluster, 'mart_ghost_capacity_daily' as table_name, state as measure, us, 0 as tolerance_us
    from state_days

    {%- for table, measures in [
        ('mart_workload_gpu_hours_daily', [
            ('held', 'held'), ('productive', 'productive'), ('ghost', 'held_ghost'), ('unobserved', 'unobserved')
        ]),
        ('mart_gpu_net_daily', [
            ('capacity', 'capacity'), ('held', 'held'), ('ghost', 'ghost'), ('productive', 'productive'),
            ('unobserved', 'unobserved'), ('unallocated', 'unallocated'), ('borrowed', 'borrowed'),
            ('out_of_service', 'out_of_service')
        ]),
        ('mart_gpu_idle_time_daily', [('held', 'held')])
    ] %}{% for measure, figure in measures %}

    union all

    select
        usage_date,
        cluster,
        '{{ table }}' as table_name,
        '{{ measure }}' as measure,
        {{ figure }}_us as us,
        -- the minutes of idle time are not rounded to whole microseconds as the ledger's rows are
        {{ 'row_count' if table == 'mart_gpu_idle_time_daily' else '0' }} as tolerance_us
    from ledger_days
    {%- endfor %}{% endfor %}

),

told as (

    select usage_date, cluster, 'mart_ghost_capacity_daily' as table_name, state as measure, gpu_hours
    from steps

    {%- for measure in ['held', 'productive', 'ghost', 'unobserved'] %}

    union all

    select usage_date, cluster, 'mart_workload_gpu_hours_daily' as table_name, '{{ measure }}' as measure, {{ measure }}_gpu_hours
    from workload_days
    {%- endfor %}

    {%- for measure in [
        'capacity', 'held', 'ghost', 'productive', 'unobserved', 'unallocated', 'borrowed', 'out_of_service'
    ] %}

    union all

    select usage_date, cluster, 'mart_gpu_net_daily' as table_name, '{{ measure }}' as measure, {{ measure }}_gpu_hours
    from net_days
    {%- endfor %}

    union all

    select usage_date, cluster, 'mart_gpu_idle_time_daily' as table_name, 'held' as measure, held_hours as gpu_hours
    from idle_days

),

-- each row's hours are whole microseconds, told as a double
measured as (

    select
        usage_date,
        cluster,
        table_name,
        measure,
        cast(sum(round(gpu_hours * 3.6e9)) as bigint) as us

    from told
    group by usage_date, cluster, table_name, measure

),

-- a figure on one side only is a difference like any other
compared as (

    select
        coalesce(promised.usage_date, measured.usage_date) as usage_date,
        coalesce(promised.cluster, measured.cluster) as cluster,
        coalesce(promised.table_name, measured.table_name) as table_name,
        coalesce(promised.measure, measured.measure) as measure,
        coalesce(promised.us, 0) as promised,
        coalesce(measured.us, 0) as measured,
        coalesce(promised.tolerance_us, 0) as tolerance_us

    from promised
    full outer join measured
        on
            promised.usage_date = measured.usage_date
            and promised.cluster = measured.cluster
            and promised.table_name = measured.table_name
            and promised.measure = measured.measure

),

final as (

    select
        compared.*,
        measured - promised as difference,
        abs(measured - promised) <= tolerance_us as holds

    from compared

)

select * from final
