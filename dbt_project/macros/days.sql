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

{#- A literal list of the partitions that hold the rows of the days in question, so that only their files are opened: those of
    the days themselves and, for a reading that reaches over midnight, of the day before each. `days` is `rolled_up`, `touched`
    or `ledger`; the last, for rules that look over midnight, has the day after each too. -#}
{%- macro in_partitions(days, day='dt') -%}
    {%- set days_touched = ref('int_days_touched') -%}
    {%- if execute and not flags.FULL_REFRESH -%}
        {{ in_days_found(
            "select distinct cast(unnest([usage_date, usage_date - 1" ~ (", usage_date + 1" if days == 'ledger' else "")
            ~ "]) as varchar) as day from " ~ days_touched
            ~ (" where is_rolled_up" if days == 'rolled_up' else " where not is_sealed"), day
        ) }}
    {%- else -%}
        true
    {%- endif -%}
{%- endmacro -%}

{#- Whether rows of a landing table are of a day for which rows of that table landed since the last build: for what must be known
    before the days to replace are. An incremental model that says so has `meta: {days: landed, landed_table: …}`, and
    `day_column: dt` where its rows keep their partition's. -#}
{%- macro in_landed_days(table_name, day='dt') -%}
    {%- if execute and is_incremental() -%}
        {{ in_days_found("select distinct cast(usage_date as varchar) as day from (" ~ landed_days(table_name) ~ ") as days", day) }}
    {%- else -%}
        true
    {%- endif -%}
{%- endmacro -%}

{%- macro landed_days(table_name) -%}
    select days_landed.usage_date from {{ source('control', 'days_landed') }} as days_landed
    where days_landed.table_name in ('{{ table_name }}', 'pending')
{%- endmacro -%}

{%- macro in_days_found(query, day) -%}
    {%- set days = run_query(query ~ " order by day").columns[0].values() -%}
    {%- if days | length == 0 -%}
        false
    {%- else -%}
        {#- the range is tested while rows are read, the list only on the rows that are left; it skips whole files -#}
        ({{ day }} between date '{{ days[0] }}' and date '{{ days[-1] }}'
            and {{ day }} in ({% for found in days %}date '{{ found }}'{{ ', ' if not loop.last }}{% endfor %}))
    {%- endif -%}
{%- endmacro -%}

{#- Whether an interval lies in a day that the build replaces, or begins or ends where one does. -#}
{%- macro meets_priced_days(started_at, ended_at) -%}
    exists (
        select 1
        from {{ ref('int_days_touched') }} as days
        where {{ started_at }} <= days.usage_date + interval 1 day and {{ ended_at }} >= days.usage_date
    )
{%- endmacro -%}

{#- Incremental strategy for intervals over days (started_at, ended_at): those that meet the days are deleted and written anew. -#}
{%- macro get_incremental_replace_spans_sql(arguments) -%}
    {%- set columns = arguments['dest_columns'] | map(attribute='name') | join(', ') -%}
    delete from {{ arguments['target_relation'] }}
    where {{ meets_priced_days('started_at', 'ended_at') }};
    insert into {{ arguments['target_relation'] }} ({{ columns }})
    select {{ columns }} from {{ arguments['temp_relation'] }}
{%- endmacro -%}

{#- Incremental strategy: whole days are deleted and written anew, days without new rows included. -#}
{%- macro get_incremental_replace_days_sql(arguments) -%}
    {%- set columns = arguments['dest_columns'] | map(attribute='name') | join(', ') -%}
    {%- set meta = config.get('meta', {}) -%}
    delete from {{ arguments['target_relation'] }}
    where {{ meta.get('day_column', 'usage_date') }} in (
        {% if meta.get('days') == 'landed' -%}
        {{ landed_days(meta['landed_table']) }}
        {%- else -%}
        select days.usage_date
        from {{ ref('int_days_touched') }} as days
        {% if meta.get('days') == 'rolled_up' %}where days.is_rolled_up{% elif meta.get('days') != 'priced' %}where not days.is_sealed{% endif %}
        {%- endif %}
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

{#- For a test: the rows of a model that this build wrote. Those of other days were tested by the build that wrote them. -#}
{%- macro of_this_build(relation) -%}
    {%- if execute and not flags.FULL_REFRESH -%}
        {%- set node = (graph.nodes.values() | selectattr('resource_type', 'equalto', 'model')
            | selectattr('name', 'equalto', relation.identifier) | list | first) -%}
        {%- set days = adapter.get_relation(relation.database, relation.schema, 'int_days_touched') -%}
        {%- if days and node and node.config.incremental_strategy == 'replace_days' and node.config.meta.get('days') != 'landed' -%}
            (
                select * from {{ relation }}
                where {{ node.config.meta.get('day_column', 'usage_date') }} in (select days.usage_date from {{ days }} as days)
            )
        {%- else -%}
            {{ relation }}
        {%- endif -%}
    {%- else -%}
        {{ relation }}
    {%- endif -%}
{%- endmacro -%}
