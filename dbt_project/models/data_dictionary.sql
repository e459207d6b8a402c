with

{% set rows = dictionary_rows() if execute else [] -%}

dictionary as (

    {% for row in rows -%}
    select
        {{ text_literal(row.table_name) }} as table_name,
        {{ text_literal(row.column_name) }} as column_name,
        {{ row.column_position }} as column_position,
        {{ text_literal(row.description) }} as description,
        {{ text_literal(row.data_type) }} as data_type,
        {{ text_literal(row.unit) }} as unit,
        cast({{ 'null' if row.is_additive is none else row.is_additive | string | lower }} as boolean) as is_additive,
        {{ text_literal(row.formula) }} as formula,
        {{ text_literal(row.table_description) }} as table_description
    {% if not loop.last %}union all
    {% endif %}
    {%- else -%}
    select
        cast(null as {{ dbt.type_string() }}) as table_name,
        cast(null as {{ dbt.type_string() }}) as column_name,
        1 as column_position,
        cast(null as {{ dbt.type_string() }}) as description,
        cast(null as {{ dbt.type_string() }}) as data_type,
        cast(null as {{ dbt.type_string() }}) as unit,
        cast(null as boolean) as is_additive,
        cast(null as {{ dbt.type_string() }}) as formula,
        cast(null as {{ dbt.type_string() }}) as table_description
    where false
    {%- endfor %}

)

select * from dictionary
