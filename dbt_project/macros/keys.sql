{#- Keys are declared where their model is, as tests. A build asks for all of them at its end in one query: a hundred tests, one by
    one, take a tenth of the time of a small build, most of it outside of the database. -#}

{%- macro hold_keys(results) -%}
    {%- if execute and flags.WHICH == 'build' and not results | rejectattr('status', 'in', ['success', 'pass', 'warn', 'no-op', 'skipped'])
        | list -%}
        {%- set found = keys_that_are_none(results | map(attribute='node.unique_id') | list) -%}
        {%- if found -%}
            {{ exceptions.raise_compiler_error('rows of one key, or without one: ' ~ found | join('; ')) }}
        {%- endif -%}
    {%- endif -%}
{%- endmacro -%}

{#- The declared keys of the models built that are none, each as text with the number of its faults. -#}
{%- macro keys_that_are_none(built) -%}
    {%- set queries = [] -%}
    {%- for node in graph.nodes.values() if node.resource_type == 'test' and node.attached_node in built
        and node.test_metadata.name == 'unique_key' -%}
        {%- set model = graph.nodes[node.attached_node] -%}
        {%- set relation = api.Relation.create(database=model.database, schema=model.schema, identifier=model.alias) -%}
        {%- set columns = node.test_metadata.kwargs['columns'] -%}
        {%- do queries.append(
            "select '" ~ model.name ~ ' (' ~ columns | join(', ') ~ ")' as key_name, count(*) as fault_count from ("
            ~ test_unique_key(relation, columns) ~ ') as faults'
        ) -%}
    {%- endfor -%}
    {%- set found = [] -%}
    {%- if queries -%}
        {%- for row in run_query('select * from (' ~ queries | join(' union all ') ~ ') as keys where fault_count > 0').rows -%}
            {%- do found.append(row[0] ~ ': ' ~ row[1]) -%}
        {%- endfor -%}
    {%- endif -%}
    {{ return(found) }}
{%- endmacro -%}
