{#- What drops the tables and views that no model or seed makes. A build keeps its database: those of models that were renamed,
    removed or moved, and what a killed build had begun, would stay in it for ever. -#}
{%- macro drop_what_no_model_makes() -%}
    {%- if execute and flags.WHICH == 'build' -%}
        {%- set made = [] -%}
        {%- for node in graph.nodes.values() if node.resource_type in ['model', 'seed'] and node.database == target.database -%}
            {%- do made.append(node.alias) -%}
        {%- endfor -%}
        {#- (dbt's own list of relations would leave a transaction open, which the run's end takes back) -#}
        {%- set there = run_query(
            "select table_name, table_type from information_schema.tables where table_catalog = '" ~ target.database
            ~ "' and table_schema = '" ~ target.schema ~ "'"
        ).rows -%}
        {%- for name, type in there if name not in made -%}
            drop {{ 'view' if type == 'VIEW' else 'table' }} {{ api.Relation.create(target.database, target.schema, name) }};
        {% endfor -%}
    {%- endif -%}
{%- endmacro -%}
