-- Which smaller profile of the same card would have carried a run, or an inference service, over a UTC day (rule 12), and
-- for those as quiet that none would have: why not. Asked of each slot held, with the peak memory and the activity of the
-- run or service over all its slots. Time here is time on the slot, whatever the share held, and counts once where several
-- replicas of a service share the slot.

with

spans as (

    select
        hold_number,
        usage_date,
        cluster,
        gpu_id,
        gpu_model,
        slot_id,
        slot_run_number,
        run_id,
        workload_id,
        kind,
        cast(dense_rank() over (
            order by usage_date nulls last, case when kind = 'inference' then workload_id else run_id end nulls last
        ) as integer) as demand_number,
        share * slot_fraction as held_ratio,
        slot_fraction,
        row_number() over (
            partition by cluster, slot_id, started_at, case when kind = 'inference' then workload_id else run_id end
            order by run_id asc nulls last
        ) = 1 as is_counted

    from {{ ref('int_held_spans') }}
    where {{ in_replaced_days('usage_date') }}

),

observed_holds as (

    select
        hold_number,
        sum(covered_us) as covered_us,
        sum(covered_us * activity_ratio) as activity_us,
        max(memory_bytes) as peak_memory_bytes

    from {{ ref('int_held_minutes_observed') }}
    where covered_us > 0
    group by hold_number

),

server_memory as (

    select * from {{ ref('int_server_memory_daily') }}

),

models as (

    select * from {{ ref('dim_gpu_models') }}

),

gpus as (

    select * from {{ ref('dim_gpus') }}

),

profiles as (

    select * from {{ ref('mig_profiles') }}

),

slot_days as (

    select
        spans.usage_date,
        spans.demand_number,
        spans.cluster,
        spans.gpu_id,
        spans.gpu_model,
        spans.slot_id,
        spans.slot_run_number,
        spans.run_id,
        spans.workload_id,
        spans.kind,
        max(spans.slot_fraction) as slot_fraction,
        coalesce(sum(case when spans.is_counted then observed_holds.covered_us / spans.held_ratio end), 0.0) as covered_us,
        coalesce(sum(case when spans.is_counted then observed_holds.activity_us / spans.held_ratio end), 0.0) as activity_us,
        count(observed_holds.hold_number) > 0 as is_observed,
        max(observed_holds.peak_memory_bytes) as peak_memory_bytes

    from spans
    left join observed_holds on spans.hold_number = observed_holds.hold_number
    group by
        spans.usage_date, spans.demand_number, spans.cluster, spans.gpu_id, spans.gpu_model, spans.slot_id,
        spans.slot_run_number, spans.run_id, spans.workload_id, spans.kind

),

-- of a server that takes its memory when it starts, what it needs is known only with its pool
needed as (

    select
        slot_days.*,
        slot_days.kind = 'inference' and coalesce(server_memory.null_reason, 'preallocated') <> '' as is_preallocated,
        case
            when slot_days.kind = 'inference' and slot_days.peak_memory_bytes < server_memory.kv_free_bytes then 0.0
            when slot_days.kind = 'inference' then slot_days.peak_memory_bytes - server_memory.kv_free_bytes
            else slot_days.peak_memory_bytes
        end as needed_memory_bytes

    from slot_days
    left join server_memory
        on slot_days.usage_date = server_memory.usage_date and slot_days.run_id = server_memory.run_id

),

demand_days as (

    select
        demand_number,
        round(sum(covered_us)) as covered_us,
        sum(activity_us) / nullif(sum(covered_us), 0) as activity_ratio,
        max(peak_memory_bytes) as peak_memory_bytes,
        max(needed_memory_bytes) as needed_memory_bytes,
        bool_or(is_preallocated and is_observed) as is_preallocated,
        count(distinct gpu_model) as gpu_model_count

    from needed
    group by demand_number

),

quiet_days as (

    select * from demand_days
    where activity_ratio > 0 and round(activity_ratio, 9) <= {{ var('oversized_activity_ratio') }}

),

quiet_holds as (

    select
        spans.hold_number,
        spans.held_ratio,
        quiet_days.demand_number

    from spans
    inner join quiet_days on spans.demand_number = quiet_days.demand_number
    where spans.is_counted

),

-- whole microseconds, so that the order in which they are added does not matter
activities as (

    select
        quiet_holds.demand_number,
        observed.activity_ratio,
        cast(sum(cast(round(observed.covered_us / quiet_holds.held_ratio) as bigint)) as bigint) as covered_us

    from {{ ref('int_held_minutes_observed') }} as observed
    inner join quiet_holds on observed.hold_number = quiet_holds.hold_number
    where observed.covered_us > 0
    group by quiet_holds.demand_number, observed.activity_ratio

),

activities_cumulated as (

    select
        demand_number,
        activity_ratio,
        sum(covered_us) over (
            partition by demand_number
            order by activity_ratio asc nulls last
            rows between unbounded preceding and current row
        ) as covered_up_to_us,
        sum(covered_us) over (partition by demand_number) as covered_us

    from activities

),

-- the smallest minute activity that 95 % of the covered time does not exceed
percentiles as (

    select
        demand_number,
        min(activity_ratio) as activity_p95_ratio

    from activities_cumulated
    where covered_up_to_us * 100 >= covered_us * 95
    group by demand_number

),

quiet_slots as (

    select
        needed.usage_date,
        needed.cluster,
        needed.gpu_id,
        needed.gpu_model,
        needed.slot_id,
        needed.slot_run_number,
        needed.run_id,
        needed.workload_id,
        needed.kind,
        needed.slot_fraction,
        quiet_days.covered_us,
        quiet_days.activity_ratio,
        percentiles.activity_p95_ratio,
        quiet_days.peak_memory_bytes,
        case when not quiet_days.is_preallocated then quiet_days.needed_memory_bytes end as needed_memory_bytes,
        quiet_days.is_preallocated,
        quiet_days.gpu_model_count,
        nullif(models.mig_family, '') as mig_family,
        coalesce(gpus.memory_bytes, models.memory_bytes) as card_memory_bytes

    from needed
    inner join quiet_days on needed.demand_number = quiet_days.demand_number
    inner join percentiles on quiet_days.demand_number = percentiles.demand_number
    left join models on needed.gpu_model = models.gpu_model
    left join gpus on needed.gpu_id = gpus.gpu_id

),

-- each smaller profile of the card beside the slot, and whether memory and activity would fit into it
smaller_profiles as (

    select
        quiet_slots.usage_date,
        quiet_slots.slot_run_number,
        profiles.mig_profile,
        profiles.compute_slices / round(quiet_slots.slot_fraction * profiles.card_compute_slices) as fit_ratio,
        coalesce(
            round(quiet_slots.needed_memory_bytes * {{ var('fit_memory_headroom_ratio') }})
            <= round(quiet_slots.card_memory_bytes * profiles.memory_slices / profiles.card_memory_slices),
            false
        ) as is_memory_fit,
        round(quiet_slots.activity_p95_ratio / {{ var('fit_activity_ratio') }}, 9)
        <= round(profiles.compute_slices / round(quiet_slots.slot_fraction * profiles.card_compute_slices), 9)
            as is_activity_fit,
        row_number() over (
            partition by quiet_slots.usage_date, quiet_slots.slot_run_number
            order by
                profiles.compute_slices asc nulls last,
                profiles.memory_slices asc nulls last,
                profiles.mig_profile asc nulls last
        ) as size_rank

    from quiet_slots
    inner join profiles on quiet_slots.mig_family = profiles.mig_family
    where profiles.compute_slices < round(quiet_slots.slot_fraction * profiles.card_compute_slices)

),

fits as (

    select
        usage_date,
        slot_run_number,
        bool_or(is_memory_fit) as is_any_memory_fit,
        bool_or(is_activity_fit) as is_any_activity_fit,
        min_by(mig_profile, size_rank) filter (where is_memory_fit and is_activity_fit) as mig_profile,
        min_by(fit_ratio, size_rank) filter (where is_memory_fit and is_activity_fit) as fit_ratio

    from smaller_profiles
    group by usage_date, slot_run_number

),

reasoned as (

    select
        quiet_slots.*,
        fits.mig_profile,
        fits.fit_ratio,
        case
            when quiet_slots.covered_us < {{ var('oversized_covered_hours') }} * 3600000000 then 'low_coverage'
            when quiet_slots.gpu_model_count > 1 then 'spans_models'
            when quiet_slots.mig_family is null then 'not_partitionable'
            when fits.slot_run_number is null then 'no_smaller_profile'
            when quiet_slots.peak_memory_bytes is null then 'no_memory_reading'
            when quiet_slots.is_preallocated then 'preallocated'
            when fits.mig_profile is not null then ''
            when not fits.is_any_memory_fit and fits.is_any_activity_fit then 'memory_in_use'
            else 'too_busy'
        end as null_reason

    from quiet_slots
    left join fits
        on quiet_slots.usage_date = fits.usage_date and quiet_slots.slot_run_number = fits.slot_run_number

),

final as (

    select
        usage_date,
        slot_run_number,
        slot_id,
        run_id,
        cluster,
        gpu_id,
        gpu_model,
        workload_id,
        kind,
        covered_us,
        activity_ratio,
        activity_p95_ratio,
        needed_memory_bytes,
        card_memory_bytes,
        case when null_reason = '' then mig_profile end as mig_profile,
        case when null_reason = '' then fit_ratio end as fit_ratio,
        null_reason

    from reasoned

)

select * from final
