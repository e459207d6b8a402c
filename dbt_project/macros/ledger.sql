{#- (part, expression of microseconds) of a held minute: they add up to the held time. -#}
{%- macro held_parts() -%}
    {{ return([
        ('suspended', 'suspended_us'),
        ('unobserved', 'held_us - suspended_us - covered_us'),
        ('overprovisioned', 'overprovisioned_us'),
        ('unbalanced', 'unbalanced_us'),
        ('idle', 'idle_us'),
        ('throttled', 'throttled_us'),
        ('oversized', 'oversized_us'),
        ('underfilled', 'underfilled_us'),
        ('productive', 'productive_us'),
    ]) }}
{%- endmacro -%}

{#- (state, reason, whether activity was the evidence, part of a held minute) in the order of the rules. -#}
{%- macro held_states() -%}
    {{ return([
        ('suspended', "'position_unknown'", false, 'suspended'),
        ('unobserved', 'gap_reason', false, 'unobserved'),
        ('overprovisioned', "''", true, 'overprovisioned'),
        ('unbalanced', "''", true, 'unbalanced'),
        ('pipeline_waiting', 'idle_reason', true, 'idle'),
        ('reserved_memory', "''", true, 'idle'),
        ('idle_compute', "''", true, 'idle'),
        ('throttled', "''", true, 'throttled'),
        ('oversized', "''", true, 'oversized'),
        ('underfilled', "''", true, 'underfilled'),
        ('productive', "''", true, 'productive'),
    ]) }}
{%- endmacro -%}

{#- Whether idle time of a reason belongs to a state. -#}
{%- macro state_of_idle(state) -%}
    {%- if state == 'pipeline_waiting' -%}
        idle_reason in ('waiting_requests', 'startup', 'stall')
    {%- else -%}
        idle_reason = '{{ state }}'
    {%- endif -%}
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
        flags.flags,
        case
            when
                runs.ended_at is not null
                and {{ microseconds_between('runs.held_from_at', 'runs.held_until_at') }}
                    < {{ var('short_run_minutes') }} * 60000000
                then 'short_run'
        end
    )
{%- endmacro -%}
