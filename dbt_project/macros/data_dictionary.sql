{#-
    The rows of the data dictionary, from the graph: every column of every published table, tables and columns by name.

    What a column's YAML says wins (`config.meta`: unit, is_additive, formula). Where it does not say whether sums mean
    something, hours, money, energy, tokens and counts are additive in facts and marts, and other numbers are not.
-#}

{%- macro dictionary_rows() -%}
    {%- set rows = [] -%}
    {%- set published = [] -%}
    {%- for node in graph.nodes.values() | selectattr('resource_type', 'equalto', 'model') -%}
        {%- if node.name.split('_')[0] in ['dim', 'fct', 'mart', 'audit'] or node.name == 'data_dictionary' -%}
            {%- do published.append(node) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for node in graph.sources.values() | selectattr('source_name', 'equalto', 'published') -%}
        {%- do published.append(node) -%}
    {%- endfor -%}
    {%- for node in published | sort(attribute='name') -%}
        {%- for column in node.columns.values() -%}
            {%- set meta = column.config.meta if column.config and column.config.meta else column.meta -%}
            {%- do rows.append({
                'table_name': node.name,
                'table_description': node.description,
                'column_name': column.name,
                'column_position': loop.index,
                'description': column.description,
                'data_type': column.data_type,
                'unit': meta.get('unit'),
                'is_additive': is_additive(node.name, column.name, meta),
                'formula': meta.get('formula'),
            }) -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(rows) }}
{%- endmacro -%}

{#- Whether the column may be summed: none for what is no quantity. -#}
{%- macro is_additive(table_name, column_name, meta) -%}
    {%- if 'is_additive' in meta -%}
        {{ return(meta['is_additive']) }}
    {%- elif not meta.get('unit') -%}
        {{ return(none) }}
    {%- elif 'formula' in meta or table_name.split('_')[0] == 'dim' -%}
        {{ return(false) }}
    {%- else -%}
        {{ return(meta['unit'] in ['us', 's', 'h', 'gpu_h', 'min', 'currency', 'kWh', 'J', 'tokens', 'count']) }}
    {%- endif -%}
{%- endmacro -%}

{#- A text as a SQL literal on one line, null where there is none. -#}
{%- macro text_literal(text) -%}
    {%- if text is none or text is undefined or text == '' -%}
        cast(null as {{ dbt.type_string() }})
    {%- else -%}
        '{{ text | string | trim | replace("\n", " ") | replace("'", "''") }}'
    {%- endif -%}
{%- endmacro -%}
