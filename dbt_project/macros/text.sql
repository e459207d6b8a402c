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

{#- What the first group of a pattern captures in a text, null where the pattern is not found. -#}
{%- macro captured_text(value, pattern) -%}
    {{ return(adapter.dispatch('captured_text', 'gpu_net')(value, pattern)) }}
{%- endmacro -%}
{%- macro duckdb__captured_text(value, pattern) -%}
    nullif(regexp_extract({{ value }}, {{ pattern }}, 1), '')
{%- endmacro -%}

{#- A pod's name without what its controller hung onto it: the hash of the template and five random characters, both
    written without vowels and without 0, 1 and 3. -#}
{%- macro pod_owner_name(value) -%}
    {{ return(adapter.dispatch('pod_owner_name', 'gpu_net')(value)) }}
{%- endmacro -%}
{%- macro duckdb__pod_owner_name(value) -%}
    regexp_replace(
        {{ value }}, '(-[bcdfghjklmnpqrstvwxz2456789]{6,10})?-[bcdfghjklmnpqrstvwxz2456789]{5}$', ''
    )
{%- endmacro -%}

{#- A MIG profile as the seed writes it: 3g.71gb of `1c.3g.71gb`, `MIG 3g.71gb`, `mig-3g.71gb`, `3g.71gb+me`. -#}
{%- macro mig_profile_name(value) -%}
    coalesce({{ captured_text('lower(' ~ value ~ ')', "'([0-9]+g[.][0-9]+gb)'") }}, lower({{ value }}))
{%- endmacro -%}

{#- A PCI address without the zeros that some sources write before it and others do not: 3b:00.0 of `00000000:3B:00.0`. -#}
{%- macro pci_address(value) -%}
    regexp_replace(lower({{ value }}), '^[0:]+', '')
{%- endmacro -%}
