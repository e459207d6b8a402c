-- The promise of semantics 8: several models on one server share what it held, and the parts add up to it, in hours and on
-- each basis of cost; and a model's requests and tokens are those of the hours that were counted. A row that does not
-- hold keeps the build from being published: a cost per token rests on hours, money or tokens that are not there.

{{ config(
    materialized='incremental', incremental_strategy='replace_days', meta={'days': 'priced'},
    on_schema_change='append_new_columns'
) }}

{% set counts = ['request_count', 'failed_request_count', 'prompt_tokens', 'cached_prompt_tokens', 'output_tokens'] %}

with

models as (

    select * from {{ ref('mart_unit_economics_daily') }}
    where {{ in_priced_days('usage_date') }}

),

workload_days as (

    select * from {{ ref('mart_workload_gpu_hours_daily') }}
    where {{ in_priced_days('usage_date') }}

),

inference_hours as (

    select * from {{ ref('fct_inference_hourly') }}
    where {{ in_priced_days('usage_date') }}

),

workloads_served as (

    select distinct
        usage_date,
        workload_id

    from models

),

promised as (

    {% for measure, amount in [
        ('held_gpu_hours', 'held_gpu_hours'), ('allocation_cost', 'cast(allocation_cost as double)'),
        ('usage_cost', 'cast(usage_cost as double)'), ('fully_loaded_cost', 'cast(fully_loaded_cost as double)')
    ] -%}
    select
        workload_days.usage_date,
        workload_days.workload_id,
        '{{ measure }}' as measure,
        coalesce(sum({{ amount }}), 0.0) as amount
    from workload_days
    inner join workloads_served
        on workload_days.usage_date = workloads_served.usage_date and workload_days.workload_id = workloads_served.workload_id
    group by workload_days.usage_date, workload_days.workload_id
    union all
    {% endfor %}
    {% for measure in counts -%}
    select usage_date, workload_id, '{{ measure }}' as measure, cast(coalesce(sum({{ measure }}), 0) as double) as amount
    from inference_hours
    group by usage_date, workload_id
    {{ 'union all' if not loop.last }}
    {% endfor %}

),

measured as (

    {% for measure in ['held_gpu_hours', 'allocation_cost', 'usage_cost', 'fully_loaded_cost'] + counts -%}
    select usage_date, workload_id, '{{ measure }}' as measure, coalesce(sum(cast({{ measure }} as double)), 0.0) as amount
    from models
    group by usage_date, workload_id
    {{ 'union all' if not loop.last }}
    {% endfor %}

),

compared as (

    select
        coalesce(promised.usage_date, measured.usage_date) as usage_date,
        coalesce(promised.measure, measured.measure) as measure,
        coalesce(promised.amount, 0.0) as promised_amount,
        coalesce(measured.amount, 0.0) as measured_amount

    from promised
    full outer join measured
        on
            promised.usage_date = measured.usage_date
            and promised.workload_id = measured.workload_id
            and promised.measure = measured.measure

),

audited as (

    select
        usage_date,
        measure,
        sum(promised_amount) as promised,
        sum(measured_amount) as measured,
        sum(measured_amount) - sum(promised_amount) as difference,
        -- hours are doubles, and money has six digits
        count(
            case when abs(measured_amount - promised_amount) > 1e-6 + 1e-9 * abs(promised_amount) then 1 end
        ) as workload_days_off

    from compared
    group by usage_date, measure

),

final as (

    select
        audited.*,
        workload_days_off = 0 as holds

    from audited

)

select * from final
