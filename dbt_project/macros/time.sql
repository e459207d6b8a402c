{#- What DuckDB and Spark write differently about time; each has a DuckDB form here and takes a Spark form beside it. -#}

{%- macro microseconds_between(start_at, end_at) -%}
    {{ return(adapter.dispatch('microseconds_between', 'gpu_net')(start_at, end_at)) }}
{%- endmacro -%}
{%- macro duckdb__microseconds_between(start_at, end_at) -%}
    (epoch_us({{ end_at }}) - epoch_us({{ start_at }}))
{%- endmacro -%}

{%- macro plus_microseconds(instant, microseconds) -%}
    {{ return(adapter.dispatch('plus_microseconds', 'gpu_net')(instant, microseconds)) }}
{%- endmacro -%}
{%- macro duckdb__plus_microseconds(instant, microseconds) -%}
    ({{ instant }} + to_microseconds(cast({{ microseconds }} as bigint)))
{%- endmacro -%}

{#- One row for each `unit` (minute, hour, day) that the half-open span [start_at, end_at) touches: its beginning. -#}
{%- macro each_touched(unit, start_at, end_at) -%}
    {{ return(adapter.dispatch('each_touched', 'gpu_net')(unit, start_at, end_at)) }}
{%- endmacro -%}
{%- macro duckdb__each_touched(unit, start_at, end_at) -%}
    unnest(generate_series(
        date_trunc('{{ unit }}', {{ start_at }}), {{ end_at }} - interval 1 microsecond, interval 1 {{ unit }}
    ))
{%- endmacro -%}

{%- macro instant_as_text(instant) -%}
    {{ return(adapter.dispatch('instant_as_text', 'gpu_net')(instant)) }}
{%- endmacro -%}
{%- macro duckdb__instant_as_text(instant) -%}
    case
        when {{ instant }} = date_trunc('second', {{ instant }}) then strftime({{ instant }}, '%Y-%m-%dT%H:%M:%SZ')
        else strftime({{ instant }}, '%Y-%m-%dT%H:%M:%S.%fZ')
    end
{%- endmacro -%}

{#- One row for each whole number from 1 to `count`. -#}
{%- macro each_number(count) -%}
    {{ return(adapter.dispatch('each_number', 'gpu_net')(count)) }}
{%- endmacro -%}
{%- macro duckdb__each_number(count) -%}
    unnest(generate_series(1, {{ count }}))
{%- endmacro -%}

{#- How many seconds of the day an instant falls on in a group: a bitmap, where a set of millions of instants would cost more
    than all the rest. -#}
{%- macro distinct_seconds_of_day(instant) -%}
    {{ return(adapter.dispatch('distinct_seconds_of_day', 'gpu_net')(instant)) }}
{%- endmacro -%}
{%- macro duckdb__distinct_seconds_of_day(instant) -%}
    bit_count(bitstring_agg(cast((epoch_us({{ instant }}) // 1000000) % 86400 as integer), 0, 86399))
{%- endmacro -%}
