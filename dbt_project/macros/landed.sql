{#- The rows of a landing table: the files that outcome records list, or an empty relation of the table's columns. -#}

{%- macro landed(table_name) -%}
    {%- set declared = source('landing', table_name) -%}
    {%- if execute -%}
        {%- set columns = run_query(
            "select column_name, data_type from control.landing_columns where table_name = '" ~ table_name ~ "' order by position"
        ).rows -%}
        {%- set files = run_query(
            "select lacking_columns, path from control.landed_files where table_name = '" ~ table_name
            ~ "' order by lacking_columns, path"
        ).rows -%}
    {%- else -%}
        {%- set columns = [] -%}
        {%- set files = [] -%}
    {%- endif -%}
    {{ return(adapter.dispatch('landed_rows', 'gpu_net')(columns, files)) }}
{%- endmacro -%}

{%- macro duckdb__landed_rows(columns, files) -%}
    {%- if files | length == 0 -%}
    select
        {% for column in columns %}cast(null as {{ column[1] }}) as {{ column[0] }}, {% endfor %}cast(null as date) as dt
    where false
    {%- else -%}
    {#- with the name of the relation before them, since `at` alone (training_events) is a word of DuckDB's grammar #}
    {%- for lacking, rows in files | groupby(0) %}
    {%- set absent = (lacking or '').split(',') %}
    select
        {% for column in columns -%}
        {{ "cast(null as " ~ column[1] ~ ") as " ~ column[0] if column[0] in absent else "landed_rows." ~ column[0] }},
        {%- endfor %} landed_rows.dt
    from read_parquet(
        [{% for row in rows %}'{{ row[1] | replace("'", "''") }}'{{ ',' if not loop.last }}{% endfor %}],
        hive_partitioning = true, hive_types = {'dt': date}
    ) as landed_rows
    {{ 'union all' if not loop.last }}
    {%- endfor %}
    {%- endif -%}
{%- endmacro -%}

{#- The place of a row of `source` among those with its key: 1 is the one landed last. -#}
{%- macro landing_rank(key) -%}
    row_number() over (
            partition by {% for name in key %}source.{{ name }}{{ ', ' if not loop.last }}{% endfor %}
            order by
                source.landed_at desc nulls last,
                source.line_number desc nulls last,
                source.collection_run_id desc nulls last
        )
{%- endmacro -%}

{#- Of rows with one key the one landed last stands. -#}
{%- macro landed_last(table_name, key, by_day=false) -%}
with

source as (

    {{ landed(table_name) }}

),

ranked as (

    select
        source.*,
        {{ landing_rank((['dt'] if by_day else []) + key) }} as landing_rank

    from source

)

select * exclude (landing_rank) from ranked
where landing_rank = 1
{%- endmacro -%}

{#- The same of a table with many rows of a day, few of which repeat others: keys are counted, and only rows of those that stand
    twice are ranked, since a window over all rows costs three times as much. A day asked for is read alone in each part. -#}
{%- macro landed_last_of_day(table_name, key) -%}
{%- set rows = landed(table_name) -%}
{%- set repeated -%}
(
        select
            dt,
            {{ key | join(', ') }}

        from (

    {{ rows }}

        ) as counted
        group by dt, {{ key | join(', ') }}
        having count(*) > 1
    ) as repeated
        on
            source.dt = repeated.dt
            {% for name in key -%}
            and source.{{ name }} is not distinct from repeated.{{ name }}
            {% endfor %}
{%- endset -%}
with

alone as (

    select source.*
    from (

    {{ rows }}

    ) as source
    left join {{ repeated }}
    where repeated.dt is null

),

ranked as (

    select
        source.*,
        {{ landing_rank(['dt'] + key) }} as landing_rank

    from (

    {{ rows }}

    ) as source
    inner join {{ repeated }}

)

select * from alone
union all
select * exclude (landing_rank) from ranked
where landing_rank = 1
{%- endmacro -%}
