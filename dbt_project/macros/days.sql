{#- dbt learns a model's refs when it parses, where nothing is incremental yet: each macro asks for its ref before it branches. -#}

{#- The days a build replaces. `int_days_touched` holds them; a full refresh replaces all. -#}

{%- macro in_touched_days(day) -%}
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
        {% if config.get('meta', {}).get('days') == 'rolled_up' %}where days.is_rolled_up{% endif %}
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
        {{ day }} in (select days.usage_date from {{ days_touched }} as days)
    {%- endif -%}
{%- endmacro -%}
