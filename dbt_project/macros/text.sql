{#- What DuckDB and Spark write differently about texts. -#}

{#- Whether `pattern` is found in `value`; a pattern that is no regular expression finds nothing. -#}
{%- macro is_found(pattern, value) -%}
    {{ return(adapter.dispatch('is_found', 'gpu_net')(pattern, value)) }}
{%- endmacro -%}
{%- macro duckdb__is_found(pattern, value) -%}
    coalesce(try(regexp_matches({{ value }}, {{ pattern }})), false)
{%- endmacro -%}

{%- macro digits_masked(value) -%}
    {{ return(adapter.dispatch('digits_masked', 'gpu_net')(value)) }}
{%- endmacro -%}
{%- macro duckdb__digits_masked(value) -%}
    regexp_replace({{ value }}, '[0-9]+', '#', 'g')
{%- endmacro -%}

{#- A member of a JSON object as text; `key` may hold dots. -#}
{%- macro json_text(document, key) -%}
    {{ return(adapter.dispatch('json_text', 'gpu_net')(document, key)) }}
{%- endmacro -%}
{%- macro duckdb__json_text(document, key) -%}
    json_extract_string({{ document }}, '$."{{ key }}"')
{%- endmacro -%}

{#- One row per item of a comma-separated list. -#}
{%- macro each_item(list) -%}
    {{ return(adapter.dispatch('each_item', 'gpu_net')(list)) }}
{%- endmacro -%}
{%- macro duckdb__each_item(list) -%}
    unnest(string_split({{ list }}, ','))
{%- endmacro -%}

{%- macro joined_text(value, ordering) -%}
    {{ return(adapter.dispatch('joined_text', 'gpu_net')(value, ordering)) }}
{%- endmacro -%}
{%- macro duckdb__joined_text(value, ordering) -%}
    string_agg({{ value }}, ',' order by {{ ordering }} nulls last)
{%- endmacro -%}

{#- The whole number that a text begins with, null where it begins with none. -#}
{%- macro leading_number(value) -%}
    {{ return(adapter.dispatch('leading_number', 'gpu_net')(value)) }}
{%- endmacro -%}
{%- macro duckdb__leading_number(value) -%}
    try_cast(nullif(regexp_extract({{ value }}, '^[0-9]+', 0), '') as bigint)
{%- endmacro -%}
