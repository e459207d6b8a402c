{#- dbt learns a model's refs when it parses, where nothing is incremental yet: each macro asks for its ref before it branches. -#}

{#- The days a build replaces. `int_days_touched` holds them; a full refresh replaces all. Of a day whose samples have expired only
    the money can be worked out again: it is among the priced days, and not among the touched ones (semantics 11). -#}

{%- macro in_touched_days(day) -%}
    {%- set days_touched = ref('int_days_touched') -%}
    {%- if is_incremental() -%}
        {{ day }} in (select days.usage_date from {{ days_touched }} as days where not days.is_sealed)
    {%- else -%}
        true
    {%- endif -%}
{%- endmacro -%}

{%- macro in_priced_days(day) -%}
    {%- set days_touched = ref('int_days_touched') -%}
    {%- if is_incremental() -%}
        {{ day }} in (select days.usage_date from {{ days_touched }} as days)
    {%- else -%}
        true
    {%- endif -%}
{%- endmacro -%}

{%- macro in_rolled_up_days(day) -%}
    {%- set days_touched = ref('int_days_touched') -%}
    {%- if is_incremental() -%}
        {{ day }} in (select days.usage_date from {{ days_touched }} as days where days.is_rolled_up)
    {%- else -%}
        true
    {%- endif -%}
{%- endmacro -%}

{#- Incremental strategy: whole days are deleted and written anew, days without new rows included. -#}
{%- macro get_incremental_replace_days_sql(arguments) -%}
    {%- set columns = arguments['dest_columns'] | map(attribute='name') | join(', ') -%}
    delete from {{ arguments['target_relation'] }}
    where usage_date in (
        select days.usage_date
        from {{ ref('int_days_touched') }} as days
        {% set which = config.get('meta', {}).get('days') -%}
        {% if which == 'rolled_up' %}where days.is_rolled_up{% elif which != 'priced' %}where not days.is_sealed{% endif %}
    );
    insert into {{ arguments['target_relation'] }} ({{ columns }})
    select {{ columns }} from {{ arguments['temp_relation'] }}
{%- endmacro -%}

{#- Like in_touched_days, for models that hold only the days of this build and are no incremental ones. -#}
{%- macro in_replaced_days(day) -%}
    {%- set days_touched = ref('int_days_touched') -%}
    {%- if flags.FULL_REFRESH -%}
        true
    {%- else -%}
        {{ day }} in (select days.usage_date from {{ days_touched }} as days where not days.is_sealed)
    {%- endif -%}
{%- endmacro -%}

{#- Like in_priced_days, for models that hold only the days of this build and are no incremental ones. -#}
{%- macro in_repriced_days(day) -%}
    {%- set days_touched = ref('int_days_touched') -%}
    {%- if flags.FULL_REFRESH -%}
        true
    {%- else -%}
        {{ day }} in (select days.usage_date from {{ days_touched }} as days)
    {%- endif -%}
{%- endmacro -%}

{#- Where the facts of a window's days end. A last day that is not whole ends with the window. At a whole day nothing is cut but
    what is not known to end (`of_provisional`): a run that is still held ends where the window does (semantics 1). -#}
{%- macro window_end(of_provisional=false) -%}
    (
        select
            coalesce(
                {% if of_provisional -%}
                build_window.end_at,
                {%- else -%}
                case when build_window.end_at <> date_trunc('day', build_window.end_at) then build_window.end_at end,
                {%- endif %}
                timestamp '9999-01-01'
            )
        from {{ source('control', 'build_window') }} as build_window
    )
{%- endmacro -%}
