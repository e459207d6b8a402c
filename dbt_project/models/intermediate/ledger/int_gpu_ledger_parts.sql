-- The parts of each device-hour, in unrounded microseconds: time out of service, time nobody held, shares nobody asked
-- for, and each holder's states. They add up to the device's time in inventory but for floating point.

{{ config(database='scratch') }}

with

spans as (

    select * from {{ ref('int_slot_spans') }}
    where {{ in_ledger_days('usage_date') }}

),

shared_slots as (

    select distinct
        slots.slot_number,
        slots.cluster,
        slots.slot_id

    from {{ ref('int_slots_numbered') }} as slots
    inner join spans
        on slots.cluster = spans.cluster and slots.gpu_id = spans.gpu_id and slots.slot_id = spans.slot_id
    where spans.is_shared

),

slot_minutes as (

    select
        slot_minutes.*,
        shared_slots.cluster,
        shared_slots.slot_id

    from {{ ref('int_slot_minutes') }} as slot_minutes
    inner join shared_slots on slot_minutes.slot_number = shared_slots.slot_number

),

divided as (

    select * from {{ ref('int_held_hours_divided') }}

),

stranded as (

    select
        cluster,
        slot_id,
        span_started_at,
        hour_start_at,
        sum(us) as us

    from {{ ref('int_slots_stranded') }}
    group by cluster, slot_id, span_started_at, hour_start_at

),

span_hours as (

    select
        spans.*,
        {{ each_touched('hour', 'spans.started_at', 'spans.ended_at') }} as hour_start_at

    from spans
    where is_out_of_service or held_share < 1.0

),

in_hours as (

    select
        * exclude (started_at, ended_at),
        started_at as span_started_at,
        greatest(started_at, hour_start_at) as started_at,
        least(ended_at, hour_start_at + interval 1 hour) as ended_at

    from span_hours

),

not_held_reasons as (

    select
        in_hours.*,
        case
            when is_out_of_service then node_state
            when is_stranded then 'stranded'
            when node_state in ('draining', 'drained') then 'draining'
            when node_state = 'reserved' then 'reserved_empty'
            else 'free'
        end as reason,
        {{ microseconds_between('started_at', 'ended_at') }} * slot_fraction
            * case when is_out_of_service then 1.0 else 1.0 - held_share end as us

    from in_hours
    where is_out_of_service or (not is_shared and not is_implied)

),

-- of free time, what the node could give to no job for want of CPU or memory is stranded
not_held_split as (

    select
        not_held_reasons.* exclude (reason, us),
        not_held_reasons.reason,
        not_held_reasons.us - coalesce(stranded.us, 0.0) as us

    from not_held_reasons
    left join stranded
        on
            not_held_reasons.cluster = stranded.cluster
            and not_held_reasons.slot_id = stranded.slot_id
            and not_held_reasons.span_started_at = stranded.span_started_at
            and not_held_reasons.hour_start_at = stranded.hour_start_at

    union all

    select
        not_held_reasons.* exclude (reason, us),
        'stranded' as reason,
        stranded.us

    from not_held_reasons
    inner join stranded
        on
            not_held_reasons.cluster = stranded.cluster
            and not_held_reasons.slot_id = stranded.slot_id
            and not_held_reasons.span_started_at = stranded.span_started_at
            and not_held_reasons.hour_start_at = stranded.hour_start_at

),

not_held as (

    select
        usage_date,
        hour_start_at,
        cluster,
        node,
        gpu_id,
        gpu_model,
        slot_id,
        'unallocated' as run_id,
        'unallocated' as workload_id,
        case when is_out_of_service then 'out_of_service' else 'unallocated' end as state,
        reason as state_reason,
        0 as signal,
        us,
        cast(null as double) as energy_joules

    from not_held_split

),

-- of the share of a shared slot that nobody asked for, at most 1 - activity is unallocated, the rest was borrowed
shared_minutes as (

    select
        in_hours.*,
        {{ each_touched('minute', 'in_hours.started_at', 'in_hours.ended_at') }} as minute_start_at

    from in_hours
    where is_shared and not is_out_of_service and not is_implied

),

shared_observed as (

    select
        shared_minutes.*,
        {{ microseconds_between(
            'greatest(shared_minutes.started_at, shared_minutes.minute_start_at)',
            'least(shared_minutes.ended_at, shared_minutes.minute_start_at + interval 1 minute)'
        ) }} * shared_minutes.slot_fraction as slot_us,
        1.0 - shared_minutes.held_share as unrequested_ratio,
        coalesce(slot_minutes.covered_ratio, 0.0) as covered_ratio,
        coalesce(slot_minutes.activity_ratio, 0.0) as activity_ratio,
        slot_minutes.signal,
        slot_minutes.joules_per_us

    from shared_minutes
    left join slot_minutes
        on
            shared_minutes.cluster = slot_minutes.cluster
            and shared_minutes.slot_id = slot_minutes.slot_id
            and shared_minutes.minute_start_at = slot_minutes.minute_start_at

),

unrequested as (

    select
        shared_observed.*,
        slot_us * covered_ratio * greatest(0.0, unrequested_ratio - (1.0 - activity_ratio)) as borrowed_us

    from shared_observed

),

shared_parts as (

    select
        usage_date,
        hour_start_at,
        cluster,
        node,
        gpu_id,
        gpu_model,
        slot_id,
        'unallocated' as run_id,
        'unallocated' as workload_id,
        'unallocated' as state,
        'unrequested_share' as state_reason,
        0 as signal,
        sum(slot_us * unrequested_ratio - borrowed_us) as us,
        cast(null as double) as energy_joules

    from unrequested
    group by usage_date, hour_start_at, cluster, node, gpu_id, gpu_model, slot_id

    union all

    select
        usage_date,
        hour_start_at,
        cluster,
        node,
        gpu_id,
        gpu_model,
        slot_id,
        'unallocated' as run_id,
        'unallocated' as workload_id,
        'borrowed' as state,
        '' as state_reason,
        coalesce(signal, 0) as signal,
        sum(borrowed_us) as us,
        cast(null as double) as energy_joules

    from unrequested
    group by usage_date, hour_start_at, cluster, node, gpu_id, gpu_model, slot_id, coalesce(signal, 0)

),

held_parts as (

    {% for state, reason, is_evidenced, part in held_states() -%}
    select
        usage_date,
        hour_start_at,
        cluster,
        node,
        gpu_id,
        gpu_model,
        slot_id,
        run_id,
        workload_id,
        '{{ state }}' as state,
        {{ reason }} as state_reason,
        {{ 'signal' if is_evidenced else '0' }} as signal,
        {{ part }}_us as us,
        {{ part }}_joules as energy_joules

    from divided
    where {{ part }}_us > 0{% if part == 'idle' %} and {{ state_of_idle(state) }}{% endif %}
    {{ 'union all' if not loop.last }}
    {% endfor %}

),

parts as (

    select * from not_held
    union all
    select * from shared_parts
    union all
    select * from held_parts

),

summed as (

    select
        usage_date,
        hour_start_at,
        cluster,
        node,
        gpu_id,
        gpu_model,
        slot_id,
        run_id,
        workload_id,
        state,
        state_reason,
        signal,
        sum(us) as us,
        sum(energy_joules) as energy_joules

    from parts
    group by
        usage_date, hour_start_at, cluster, node, gpu_id, gpu_model, slot_id, run_id, workload_id, state, state_reason, signal

)

select * from summed
where us > 0 and {{ in_replaced_days('usage_date') }}
