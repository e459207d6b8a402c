-- A span may be of many days. A build puts those together anew that lie in its days or meet them; where they reach further, what
-- was there before tells how far, and what was too short to be there lies in the day beside.

{{ config(materialized='incremental', incremental_strategy='replace_spans') }}

-- depends_on: {{ ref('int_days_touched') }}
with

{% if is_incremental() %}

replaced as (

    select * from {{ this }}
    where {{ meets_priced_days('started_at', 'ended_at') }}

),

days_reached as (

    select cast({{ each_touched('day', 'started_at', 'ended_at') }} as date) as usage_date
    from replaced
    union
    select usage_date from {{ ref('int_days_touched') }}
    union
    select usage_date - 1 from {{ ref('int_days_touched') }}
    union
    select usage_date + 1 from {{ ref('int_days_touched') }}

),

{% endif %}

pieces as (

    select * from {{ ref('int_idle_spans_priced') }}
    {% if is_incremental() %}
    where usage_date in (select days_reached.usage_date from days_reached)
    {% endif %}

),

spans_numbered as (

    {{ adjoining_spans('pieces', ['cluster', 'slot_id', 'run_id']) }}

),

stitched as (

    select
        cluster,
        slot_id,
        run_id,
        min(started_at) as started_at,
        max(ended_at) as ended_at,
        max(gpu_id) as gpu_id,
        max(workload_id) as workload_id,
        cast(sum(idle_minutes) as bigint) as idle_minutes,
        sum(memory_byte_minutes) / nullif(sum(memory_minutes), 0) as memory_held_bytes,
        sum(cost) as cost,
        min(currency) as currency,
        -- amounts of two currencies are not added, and an hour without a price leaves no whole amount
        count(distinct currency) = 1 and count(cost) = count(*) as is_priced

    from spans_numbered
    group by cluster, slot_id, run_id, span_number

),

final as (

    select
        slot_id,
        run_id,
        started_at,
        gpu_id,
        cluster,
        workload_id,
        ended_at,
        idle_minutes,
        cast(round(memory_held_bytes) as bigint) as memory_held_bytes,
        case when is_priced then cast(cost as decimal(18, 6)) end as cost,
        case when is_priced then currency else 'unknown' end as currency

    from stitched
    where
        idle_minutes >= {{ var('idle_span_minutes') }}
        {% if is_incremental() %}
        and {{ meets_priced_days('started_at', 'ended_at') }}
        {% endif %}

)

select * from final
