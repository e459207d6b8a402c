-- How many replicas an inference service kept in an hour and how many it needed (rule 6): as many as carry its demand at
-- the target utilisation, one more, at least the minimum, never more than it kept; and why the rule says nothing where it
-- does. Of the runs that hold in the hour the one that started last knows the rules now in force for the service.

with

stretches as (

    select distinct
        usage_date,
        hour_start_at,
        workload_id,
        started_at,
        ended_at,
        replica_count

    from {{ ref('int_replica_stretches') }}

),

spans as (

    select * from {{ ref('int_held_spans') }}
    where kind = 'inference' and {{ in_replaced_days('usage_date') }}

),

runs as (

    select * from {{ ref('int_runs') }}

),

demand as (

    select * from {{ ref('int_service_demand_hourly') }}

),

capacities as (

    select * from {{ ref('int_replica_capacities') }}
    where {{ in_replaced_days('usage_date') }}

),

latency as (

    select * from {{ ref('int_service_latency_hourly') }}
    where {{ in_replaced_days('usage_date') }}

),

kept as (

    select
        usage_date,
        hour_start_at,
        workload_id,
        sum(replica_count * {{ microseconds_between('started_at', 'ended_at') }}) / 3.6e9 as replica_count_mean,
        max(replica_count) as replica_count_max

    from stretches
    group by usage_date, hour_start_at, workload_id

),

span_hours as (

    select
        workload_id,
        run_id,
        {{ each_touched('hour', 'started_at', 'ended_at') }} as hour_start_at

    from spans

),

runs_ranked as (

    select
        span_hours.workload_id,
        span_hours.hour_start_at,
        runs.cluster,
        runs.min_replicas,
        runs.replica_capacity_per_second,
        runs.latency_target_p95_seconds,
        row_number() over (
            partition by span_hours.workload_id, span_hours.hour_start_at
            order by runs.held_from_at desc nulls last, runs.run_id desc nulls last
        ) as start_rank

    from span_hours
    inner join runs on span_hours.run_id = runs.run_id

),

rules_in_force as (

    select * from runs_ranked
    where start_rank = 1

),

joined as (

    select
        kept.usage_date,
        kept.hour_start_at,
        kept.workload_id,
        rules_in_force.cluster,
        kept.replica_count_mean,
        kept.replica_count_max,
        demand.work_unit,
        demand.demand_per_second,
        coalesce(demand.minute_count, 0) as demand_minute_count,
        case
            when rules_in_force.replica_capacity_per_second > 0 then rules_in_force.replica_capacity_per_second
            else capacities.replica_capacity_per_second
        end as replica_capacity_per_second,
        case
            when rules_in_force.replica_capacity_per_second > 0 then 'configured'
            else coalesce(capacities.replica_capacity_method, 'none')
        end as replica_capacity_method,
        rules_in_force.min_replicas,
        latency.latency_source,
        latency.latency_p95_seconds,
        rules_in_force.latency_target_p95_seconds,
        coalesce(
            latency.workload_id is not null
            and rules_in_force.latency_target_p95_seconds is not null
            and (
                latency.latency_p95_seconds is null
                or latency.latency_p95_seconds > rules_in_force.latency_target_p95_seconds
            ),
            false
        ) as is_latency_missed

    from kept
    inner join rules_in_force
        on
            kept.hour_start_at = rules_in_force.hour_start_at
            and kept.workload_id = rules_in_force.workload_id
    left join demand
        on
            kept.hour_start_at = demand.hour_start_at
            and kept.workload_id = demand.workload_id
    left join capacities
        on
            demand.usage_date = capacities.usage_date
            and demand.workload_id = capacities.workload_id
            and demand.work_unit = capacities.work_unit
    left join latency
        on
            kept.hour_start_at = latency.hour_start_at
            and kept.workload_id = latency.workload_id

),

reasoned as (

    select
        joined.*,
        case
            when demand_per_second is null then 'no_usage'
            when replica_capacity_per_second is null then 'no_capacity'
            when is_latency_missed then 'latency_missed'
            else ''
        end as silent_reason,
        -- rounded, so that a quotient that floating point leaves a hair above a whole number asks for no replica more
        ceil(
            round(
                demand_per_second
                / nullif(replica_capacity_per_second * cast({{ var('target_utilization_ratio') }} as double), 0),
                9
            )
        ) + 1 as asked_count

    from joined

),

final as (

    select
        reasoned.*,
        case
            when asked_count is not null
                then cast(least(greatest(asked_count, coalesce(min_replicas, 0)), replica_count_max) as bigint)
        end as needed_replica_count

    from reasoned

)

select * from final
