-- In full, from day-grain steps: a source that falls silent shows as a day without rows, so each source has a row for
-- every day of its cluster since its first, and a first day may move back.

with

dated_rows as (

    select * from {{ ref('int_dated_rows_counted') }}

),

other_rows as (

    select * from {{ ref('int_other_rows_counted') }}

),

quarantined as (

    select * from {{ ref('int_rows_quarantined_dated') }}

),

held_days as (

    select * from {{ ref('int_held_hours_observed') }}

),

late_rows as (

    select
        usage_date,
        cluster,
        source,
        cast(sum(rows_late) as bigint) as rows_late

    from {{ ref('int_late_rows_counted') }}
    group by usage_date, cluster, source

),

rows_unioned as (

    select
        usage_date,
        cluster,
        source,
        rows_landed,
        last_landed_at,
        sampled_hours

    from dated_rows
    union all
    select
        usage_date,
        cluster,
        source,
        rows_landed,
        last_landed_at,
        cast(null as double) as sampled_hours

    from other_rows

),

rows_summed as (

    select
        usage_date,
        cluster,
        source,
        cast(sum(rows_landed) as bigint) as rows_landed,
        max(last_landed_at) as last_landed_at,
        sum(sampled_hours) as sampled_hours

    from rows_unioned
    group by usage_date, cluster, source

),

sources as (

    select
        cluster,
        source,
        min(usage_date) as first_date,
        count(sampled_hours) > 0 as has_samples

    from rows_summed
    group by cluster, source

),

spine as (

    select
        held_days.usage_date,
        sources.cluster,
        sources.source

    from held_days
    inner join sources
        on
            held_days.cluster = sources.cluster
            and held_days.usage_date >= sources.first_date

    union

    select
        usage_date,
        cluster,
        source

    from rows_summed

    union

    select
        usage_date,
        cluster,
        source

    from quarantined

    union

    select
        usage_date,
        cluster,
        source

    from late_rows

),

joined as (

    select
        spine.usage_date,
        spine.cluster,
        spine.source,
        coalesce(sources.has_samples, false) as has_samples,
        coalesce(rows_summed.rows_landed, 0) as rows_landed,
        coalesce(quarantined.rows_quarantined, 0) as rows_quarantined,
        coalesce(late_rows.rows_late, 0) as rows_late,
        greatest(rows_summed.last_landed_at, quarantined.last_landed_at) as last_landed_at,
        coalesce(rows_summed.sampled_hours, 0) as sampled_hours,
        cast(coalesce(held_days.held_us, 0) as double) / 3.6e9 as held_hours,
        cast(coalesce(held_days.held_us - held_days.unobserved_us, 0) as double) / 3.6e9 as observed_hours

    from spine
    left join sources
        on
            spine.cluster = sources.cluster
            and spine.source = sources.source
    left join rows_summed
        on
            spine.usage_date = rows_summed.usage_date
            and spine.cluster = rows_summed.cluster
            and spine.source = rows_summed.source
    left join quarantined
        on
            spine.usage_date = quarantined.usage_date
            and spine.cluster = quarantined.cluster
            and spine.source = quarantined.source
    left join late_rows
        on
            spine.usage_date = late_rows.usage_date
            and spine.cluster = late_rows.cluster
            and spine.source = late_rows.source
    left join held_days
        on
            spine.usage_date = held_days.usage_date
            and spine.cluster = held_days.cluster

),

-- only a source of samples has hours to cover; where several cover the same time, no more than its own readings span
hours_added as (

    select
        joined.*,
        case when has_samples then held_hours end as expected_hours,
        case when has_samples then least(observed_hours, sampled_hours) end as covered_hours

    from joined

),

final as (

    select
        usage_date,
        cluster,
        source,
        expected_hours,
        covered_hours,
        covered_hours / nullif(expected_hours, 0) as coverage_ratio,
        rows_landed,
        rows_quarantined,
        rows_late,
        last_landed_at

    from hours_added

)

select * from final
