{#- The days on which the intervals of a model differ from those of the last build: of an interval that is new, gone or
    told differently all its days, of one that only ends elsewhere just the days between the two ends.
    Both relations have: change_key, fingerprint, started_at, ended_at. -#}
{%- macro days_changed(model_name, built_table) -%}
    select distinct cast({{ each_touched('day', 'changed_from_at', 'changed_until_at') }} as date) as usage_date
    from (
        select
            case
                when current_rows.fingerprint = built_rows.fingerprint and current_rows.started_at = built_rows.started_at
                    then least(current_rows.ended_at, built_rows.ended_at)
                else least(
                    coalesce(current_rows.started_at, built_rows.started_at), coalesce(built_rows.started_at, current_rows.started_at)
                )
            end as changed_from_at,
            greatest(
                coalesce(current_rows.ended_at, built_rows.ended_at), coalesce(built_rows.ended_at, current_rows.ended_at)
            ) as changed_until_at
        from {{ ref(model_name) }} as current_rows
        full outer join {{ source('control', built_table) }} as built_rows on current_rows.change_key = built_rows.change_key
        where
            current_rows.change_key is null
            or built_rows.change_key is null
            or current_rows.fingerprint <> built_rows.fingerprint
            or current_rows.started_at <> built_rows.started_at
            or current_rows.ended_at <> built_rows.ended_at
    ) as changed
    where changed_from_at < changed_until_at
{%- endmacro -%}
