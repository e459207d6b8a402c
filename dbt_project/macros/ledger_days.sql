{#- Days whose spans the ledger works on: those it replaces and, because some rules look half an hour over midnight,
    their neighbours. -#}
{%- macro in_ledger_days(day) -%}
    {%- set days_touched = ref('int_days_touched') -%}
    {%- if flags.FULL_REFRESH -%}
        true
    {%- else -%}
        {{ day }} in (
            select days.usage_date from {{ days_touched }} as days where not days.is_sealed
            union
            select days.usage_date - 1 from {{ days_touched }} as days where not days.is_sealed
            union
            select days.usage_date + 1 from {{ days_touched }} as days where not days.is_sealed
        )
    {%- endif -%}
{%- endmacro -%}

{#- Whether a minute is in a day that the ledger replaces, or near enough to one to decide there. -#}
{%- macro in_ledger_minutes(minute) -%}
    {%- set days_touched = ref('int_days_touched') -%}
    {%- if flags.FULL_REFRESH -%}
        true
    {%- else -%}
        (
            cast({{ minute }} as date) in (select days.usage_date from {{ days_touched }} as days where not days.is_sealed)
            or cast({{ minute }} + interval 31 minute as date) in (
                select days.usage_date from {{ days_touched }} as days where not days.is_sealed
            )
            or cast({{ minute }} - interval 31 minute as date) in (
                select days.usage_date from {{ days_touched }} as days where not days.is_sealed
            )
        )
    {%- endif -%}
{%- endmacro -%}
