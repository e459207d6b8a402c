{#- (state, reason, is_evidenced, expression of microseconds) of the time of a held minute, in the order of the rules. -#}
{%- macro held_parts() -%}
    {{ return([
        ('suspended', "'position_unknown'", false, 'suspended_us'),
        ('unobserved', 'gap_reason', false, 'unobserved_us'),
        ('pipeline_waiting', 'idle_reason', true, "case when idle_reason in ('waiting_requests', 'startup', 'stall') then idle_us else 0 end"),
        ('reserved_memory', "''", true, "case when idle_reason = 'reserved_memory' then idle_us else 0 end"),
        ('idle_compute', "''", true, "case when idle_reason = 'idle_compute' then idle_us else 0 end"),
        ('throttled', "''", true, 'throttled_us'),
        ('underfilled', "''", true, 'underfilled_us'),
        ('productive', "''", true, 'active_us - throttled_us - underfilled_us'),
    ]) }}
{%- endmacro -%}

{#- The whole part of a quotient of whole numbers of up to 38 digits. -#}
{%- macro whole_quotient(dividend, divisor) -%}
    {{ return(adapter.dispatch('whole_quotient', 'gpu_net')(dividend, divisor)) }}
{%- endmacro -%}
{%- macro duckdb__whole_quotient(dividend, divisor) -%}
    (cast({{ dividend }} as hugeint) // cast({{ divisor }} as hugeint))
{%- endmacro -%}

{#- What should be known about a run before its figures are used, comma-separated. -#}
{%- macro flags_of_run() -%}
    concat_ws(
        ',',
        nullif(runs.flag, ''),
        nullif(trim(both ',' from exact.flags), ''),
        case
            when
                runs.ended_at is not null
                and {{ microseconds_between('runs.held_from_at', 'runs.held_until_at') }}
                    < {{ var('short_run_minutes') }} * 60000000
                then 'short_run'
        end
    )
{%- endmacro -%}
