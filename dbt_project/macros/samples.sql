{#- Columns of a sample as the roll-up needs them: activity by the first usable signal (1 sm_active,
    2 graphics_engine_active, 3 gpu_utilization), the share of the clock lost to heat or a power brake, its energy, what
    its tensor cores and its memory did. -#}
{%- macro sample_readings(samples) -%}
    -- least() passes over nulls, so the ceiling is added to a reading, never to its absence
    coalesce(
        case when {{ samples }}.sm_active_ratio > 1.0 then 1.0 else {{ samples }}.sm_active_ratio end,
        case when {{ samples }}.graphics_engine_active_ratio > 1.0 then 1.0 else {{ samples }}.graphics_engine_active_ratio end,
        case when {{ samples }}.gpu_utilization_ratio > 1.0 then 1.0 else {{ samples }}.gpu_utilization_ratio end
    ) as activity,
    case
        when {{ samples }}.sm_active_ratio is not null then 1
        when {{ samples }}.graphics_engine_active_ratio is not null then 2
        when {{ samples }}.gpu_utilization_ratio is not null then 3
    end as signal,
    case
        when ({{ samples }}.clock_event_reasons & {{ 236 if var('power_cap_is_throttling') else 232 }}) <> 0
            then greatest(0.0, 1.0 - {{ samples }}.sm_clock_mhz
                / nullif(coalesce({{ samples }}.sm_clock_application_mhz, {{ samples }}.sm_clock_max_mhz), 0))
        else 0.0
    end as throttled_ratio,
    {{ samples }}.memory_used_bytes,
    {{ samples }}.memory_total_bytes,
    -- the counter before the power (case C17), unless it says what no card can draw
    case
        when
            {{ samples }}.energy_joules >= 0
            and {{ samples }}.energy_joules <= {{ var('most_watts') }} * {{ samples }}.interval_ms / 1000.0
            then {{ samples }}.energy_joules
        else {{ samples }}.power_watts * {{ samples }}.interval_ms / 1000.0
    end / {{ samples }}.interval_ms / 1000.0 as joules_per_us,
    {{ samples }}.energy_joules >= 0
    and {{ samples }}.energy_joules <= {{ var('most_watts') }} * {{ samples }}.interval_ms / 1000.0 as is_metered,
    {{ samples }}.power_watts,
    {{ samples }}.temperature_celsius,
    case when {{ samples }}.tensor_active_ratio > 1.0 then 1.0 else {{ samples }}.tensor_active_ratio end as tensor_ratio,
    case when {{ samples }}.dram_active_ratio > 1.0 then 1.0 else {{ samples }}.dram_active_ratio end as dram_ratio,
    {{ samples }}.sm_clock_mhz,
    {{ samples }}.missing
{%- endmacro -%}

{#- The sums kept of the samples, or parts of samples, of one series in one minute; `us` is the time each covers. -#}
{%- macro sample_sums() -%}
    cast(sum(case when is_start then 1 else 0 end) as bigint) as reading_count,
    cast(sum(case when is_start then repeat_count else 0 end) as bigint) as repeat_count,
    cast(sum(case when activity is not null then us else 0 end) as bigint) as covered_us,
    cast(sum(case when activity < {{ var('idle_activity_ratio') }} then us else 0 end) as bigint) as idle_us,
    cast(sum(case when activity <= 0 then us else 0 end) as bigint) as idle_0_us,
    cast(sum(case when activity < 0.10 then us else 0 end) as bigint) as idle_10_us,
    cast(sum(case when activity < 0.25 then us else 0 end) as bigint) as idle_25_us,
    sum(activity * us) as activity_us,
    sum(case when activity >= {{ var('idle_activity_ratio') }} then activity * us else 0 end) as active_activity_us,
    sum(case when activity >= {{ var('idle_activity_ratio') }} then throttled_ratio * us else 0 end) as throttled_us,
    cast(sum(case when signal = 2 then us else 0 end) as bigint) as graphics_us,
    cast(sum(case when signal = 3 then us else 0 end) as bigint) as utilization_us,
    sum(case when activity is not null then memory_used_bytes * cast(us as double) end) as memory_byte_us,
    cast(sum(case when activity is not null and memory_used_bytes is not null then us end) as bigint) as memory_us,
    max(memory_total_bytes) as memory_total_bytes,
    sum(joules_per_us * us) as energy_joules,
    sum(case when is_metered then (power_watts / 1e6 - joules_per_us) * us end) as power_excess_joules,
    -- means already: who reads minutes weighs them by their covered time
    {% for reading in ['temperature_celsius', 'tensor_ratio', 'dram_ratio', 'sm_clock_mhz'] -%}
    sum(case when activity is not null then {{ reading }} * us end)
        / nullif(sum(case when activity is not null and {{ reading }} is not null then us end), 0) as {{ reading }},
    {% endfor -%}
    min(power_watts) as power_min_watts,
    max(power_watts) as power_max_watts,
    min(interval_start_at) as first_start_at,
    max(interval_end_at) as last_end_at,
    max(case when activity is null then missing end) as missing
{%- endmacro -%}

{#- The same of readings that all cover the same time: counted and added up, what `even_sample_products` then multiplies. -#}
{%- macro even_sample_sums() -%}
    count(*) as reading_count,
    count(activity) as covered_count,
    count(case when activity < {{ var('idle_activity_ratio') }} then 1 end) as idle_count,
    count(case when activity <= 0 then 1 end) as idle_0_count,
    count(case when activity < 0.10 then 1 end) as idle_10_count,
    count(case when activity < 0.25 then 1 end) as idle_25_count,
    sum(activity) as activity,
    sum(case when activity >= {{ var('idle_activity_ratio') }} then activity end) as active_activity,
    sum(case when activity >= {{ var('idle_activity_ratio') }} then throttled_ratio end) as throttled,
    count(case when signal = 2 then 1 end) as graphics_count,
    count(case when signal = 3 then 1 end) as utilization_count,
    sum(case when activity is not null then cast(memory_used_bytes as double) end) as memory_bytes,
    count(case when activity is not null then memory_used_bytes end) as memory_count,
    max(memory_total_bytes) as memory_total_bytes,
    sum(joules_per_us) as joules_per_us,
    sum(case when is_metered then power_watts / 1e6 - joules_per_us end) as power_excess_per_us,
    {% for reading in ['temperature_celsius', 'tensor_ratio', 'dram_ratio', 'sm_clock_mhz'] -%}
    avg(case when activity is not null then {{ reading }} end) as {{ reading }},
    {% endfor -%}
    min(power_watts) as power_min_watts,
    max(power_watts) as power_max_watts,
    min(interval_start_at) as first_start_at,
    max(interval_start_at) as last_start_at,
    max(case when activity is null then missing end) as missing
{%- endmacro -%}

{#- The columns of `sample_sums` from those of `even_sample_sums` and `interval_us`, the time that each reading covers. -#}
{%- macro even_sample_products() -%}
    reading_count,
    cast(0 as bigint) as repeat_count,
    covered_count * interval_us as covered_us,
    idle_count * interval_us as idle_us,
    idle_0_count * interval_us as idle_0_us,
    idle_10_count * interval_us as idle_10_us,
    idle_25_count * interval_us as idle_25_us,
    activity * interval_us as activity_us,
    coalesce(active_activity, 0.0) * interval_us as active_activity_us,
    coalesce(throttled, 0.0) * interval_us as throttled_us,
    graphics_count * interval_us as graphics_us,
    utilization_count * interval_us as utilization_us,
    memory_bytes * interval_us as memory_byte_us,
    memory_count * interval_us as memory_us,
    memory_total_bytes,
    joules_per_us * interval_us as energy_joules,
    power_excess_per_us * interval_us as power_excess_joules,
    temperature_celsius,
    tensor_ratio,
    dram_ratio,
    sm_clock_mhz,
    power_min_watts,
    power_max_watts,
    first_start_at,
    {{ plus_microseconds('last_start_at', 'interval_us') }} as last_end_at,
    missing
{%- endmacro -%}

{#- Why a minute was not observed, as a member of the closed list of `dim_states`: the reason that a source writes, or the member
    nearest to it. -#}
{%- macro gap_reason(reason) -%}
    case
        when {{ reason }} in ('gap', 'stale', 'not_supported', 'not_permitted', 'out_of_range') then {{ reason }}
        when {{ is_found("'(?i)support|not.?found|n/a|unknown|unavailable|implemented'", reason) }} then 'not_supported'
        when {{ is_found("'(?i)permi|privileg|denied|forbidden|unauthori'", reason) }} then 'not_permitted'
        when {{ is_found("'(?i)range|invalid|malformed|nan|overflow|negative'", reason) }} then 'out_of_range'
        when {{ is_found("'(?i)stale|frozen|repeat'", reason) }} then 'stale'
        else 'gap'
    end
{%- endmacro -%}

{#- Whether any node's samples are taken back to the scheduler's clock: asked when the model is run, so that a build
    without a wrong clock pays nothing. -#}
{%- macro clocks_are_corrected() -%}
    {%- set offsets = ref('fct_node_clock_offsets') -%}
    {%- if execute and adapter.get_relation(offsets.database, offsets.schema, offsets.identifier) -%}
        {{ return(run_query("select count(*) from " ~ offsets ~ " where corrected_minutes <> 0").columns[0].values()[0] > 0) }}
    {%- else -%}
        {{ return(true) }}
    {%- endif -%}
{%- endmacro -%}
