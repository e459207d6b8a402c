{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

-- What a service did in a minute, for what its replicas can do and what it needs of them (rule 6). The work of a usage
-- row is spread over the minutes that it covers; a server's rate in a minute is its work over the covered part of the
-- minute, the service's is the sum over its servers. A minute that no usage row covers has no row: it is missing, not 0.

with

-- a row over midnight counts on both days
usage as (

    select
        workload_id,
        server,
        model,
        adapter,
        interval_start_at,
        interval_end_at,
        request_count,
        case
            when output_tokens is not null or prompt_tokens is not null
                then
                    coalesce(output_tokens, 0)
                    + cast({{ var('prompt_token_work_ratio') }} as double) * greatest(
                        coalesce(prompt_tokens, 0)
                        - case when coalesce(prompt_includes_cached, true) then coalesce(cached_prompt_tokens, 0) else 0 end,
                        0
                    )
        end as token_work,
        running_requests,
        waiting_requests,
        kv_cache_usage_ratio

    from {{ ref('int_inference_usage_owned') }}
    where interval_ms > 0 and {{ in_ledger_days('usage_date') }}

),

spans as (

    select * from {{ ref('int_held_spans') }}
    where kind = 'inference' and {{ in_replaced_days('usage_date') }}

),

observed as (

    select * from {{ ref('int_held_minutes_observed') }}

),

replica_stretches as (

    select * from {{ ref('int_replica_stretches') }}

),

servers as (

    select
        workload_id,
        server,
        row_number() over (order by workload_id nulls last, server nulls last) as server_number,
        coalesce(min(model) < max(model), false)
        or coalesce(min(adapter) < max(adapter), false)
        or count(adapter) not in (0, count(*)) as is_shared

    from usage
    group by workload_id, server

),

numbered as (

    select
        servers.server_number,
        servers.is_shared,
        usage.interval_start_at,
        usage.interval_end_at,
        usage.token_work,
        usage.request_count,
        usage.running_requests,
        usage.waiting_requests,
        usage.kv_cache_usage_ratio

    from usage
    inner join servers on usage.workload_id = servers.workload_id and usage.server = servers.server

),

-- a server reports each of its models over the same interval; most have one, and nothing to add up
intervals as (

    select
        server_number,
        interval_start_at,
        interval_end_at,
        token_work,
        request_count,
        running_requests,
        waiting_requests,
        kv_cache_usage_ratio

    from numbered
    where not is_shared

    union all

    select
        server_number,
        interval_start_at,
        interval_end_at,
        sum(token_work) as token_work,
        sum(request_count) as request_count,
        sum(running_requests) as running_requests,
        sum(waiting_requests) as waiting_requests,
        max(kv_cache_usage_ratio) as kv_cache_usage_ratio

    from numbered
    where is_shared
    group by server_number, interval_start_at, interval_end_at

),

interval_minutes as (

    select
        intervals.*,
        {{ microseconds_between('interval_start_at', 'interval_end_at') }} as interval_us,
        {{ each_touched('minute', 'interval_start_at', 'interval_end_at') }} as minute_start_at

    from intervals

),

pieces as (

    select
        interval_minutes.*,
        {{ microseconds_between(
            'greatest(interval_start_at, minute_start_at)', 'least(interval_end_at, minute_start_at + interval 1 minute)'
        ) }} as piece_us

    from interval_minutes
    where {{ in_touched_days('cast(minute_start_at as date)') }}

),

-- models of a server that were read at different times cover no more of a minute than there is
server_minutes as (

    select
        server_number,
        minute_start_at,
        1e6 * sum(token_work * piece_us / interval_us)
            / nullif(least(sum(case when token_work is not null then piece_us end), 60000000), 0) as tokens_per_second,
        1e6 * sum(request_count * piece_us / interval_us)
            / nullif(least(sum(piece_us), 60000000), 0) as requests_per_second,
        max(running_requests) as running_requests,
        max(waiting_requests) as waiting_requests,
        max(kv_cache_usage_ratio) as kv_cache_usage_max,
        sum(kv_cache_usage_ratio * piece_us) as kv_cache_usage_us,
        sum(case when kv_cache_usage_ratio is not null then piece_us end) as kv_cache_covered_us

    from pieces
    group by server_number, minute_start_at

),

service_minutes as (

    select
        servers.workload_id,
        server_minutes.minute_start_at,
        sum(server_minutes.tokens_per_second) as tokens_per_second,
        sum(server_minutes.requests_per_second) as requests_per_second,
        sum(server_minutes.running_requests) as running_requests,
        sum(server_minutes.waiting_requests) as waiting_requests,
        max(server_minutes.kv_cache_usage_max) as kv_cache_usage_max,
        sum(server_minutes.kv_cache_usage_us) / nullif(sum(server_minutes.kv_cache_covered_us), 0) as kv_cache_usage_ratio,
        count(*) as server_count

    from server_minutes
    inner join servers on server_minutes.server_number = servers.server_number
    group by servers.workload_id, server_minutes.minute_start_at

),

-- numbers in place of names: a name for each held minute would cost more than all the rest
holding_workloads as (

    select
        workload_id,
        row_number() over (order by workload_id nulls last) as workload_number

    from spans
    group by workload_id

),

holds as (

    select
        spans.hold_number,
        holding_workloads.workload_number

    from spans
    inner join holding_workloads on spans.workload_id = holding_workloads.workload_id

),

held_minutes as (

    select
        holds.workload_number,
        observed.minute_start_at,
        sum(observed.activity_ratio * observed.covered_us) / nullif(sum(observed.covered_us), 0) as activity_ratio

    from observed
    inner join holds on observed.hold_number = holds.hold_number
    group by holds.workload_number, observed.minute_start_at

),

activity as (

    select
        holding_workloads.workload_id,
        held_minutes.minute_start_at,
        held_minutes.activity_ratio

    from held_minutes
    inner join holding_workloads on held_minutes.workload_number = holding_workloads.workload_number

),

stretches as (

    select distinct
        workload_id,
        hour_start_at,
        started_at,
        ended_at,
        replica_count

    from replica_stretches

),

final as (

    select
        cast(service_minutes.minute_start_at as date) as usage_date,
        service_minutes.workload_id,
        service_minutes.minute_start_at,
        service_minutes.tokens_per_second,
        service_minutes.requests_per_second,
        service_minutes.running_requests,
        service_minutes.waiting_requests,
        service_minutes.kv_cache_usage_max,
        service_minutes.kv_cache_usage_ratio,
        activity.activity_ratio,
        service_minutes.server_count,
        coalesce(stretches.replica_count, 0) as replica_count

    from service_minutes
    left join activity
        on
            service_minutes.workload_id = activity.workload_id
            and service_minutes.minute_start_at = activity.minute_start_at
    left join stretches
        on
            service_minutes.workload_id = stretches.workload_id
            and date_trunc('hour', service_minutes.minute_start_at) = stretches.hour_start_at
            and service_minutes.minute_start_at >= stretches.started_at
            and service_minutes.minute_start_at < stretches.ended_at

)

select * from final
