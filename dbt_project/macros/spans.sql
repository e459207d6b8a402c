{#- Rows that follow each other without a hole, told apart by one number for each unbroken run of them. -#}

{#- Minutes in a row keep their distance to their rank: an expression that is the same for all of one unbroken run of them.
    `key` is a list of columns or expressions, `minute` the start of the minute, one row for each. -#}
{%- macro row_of_minutes(key, minute) -%}
    {{ microseconds_between("timestamp '1970-01-01'", minute) }} / 60000000
    - row_number() over (partition by {{ key | join(', ') }} order by {{ minute }} asc nulls last)
{%- endmacro -%}

{#- The spans of a relation (`key`, started_at, ended_at) with `span_number`: the same for spans of one key each of which
    begins where the one before it ends. `relation` is a common table expression, `key` a list of columns. -#}
{%- macro adjoining_spans(relation, key) -%}
    {%- set columns = key | join(', ') -%}
    select
        followed.*,
        sum(case when previous_ended_at = started_at then 0 else 1 end) over (
            partition by {{ columns }}
            order by started_at asc nulls last
            rows between unbounded preceding and current row
        ) as span_number

    from (
        select
            {{ relation }}.*,
            lag(ended_at) over (partition by {{ columns }} order by started_at asc nulls last) as previous_ended_at
        from {{ relation }}
    ) as followed
{%- endmacro -%}
