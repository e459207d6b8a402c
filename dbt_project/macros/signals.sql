{#- The name of a signal by its rank (semantics 4): 1 is the best. -#}
{%- macro signal_name(signal) -%}
    case {{ signal }}
        when 1 then 'sm_active'
        when 2 then 'graphics_engine_active'
        when 3 then 'gpu_utilization'
        else 'none'
    end
{%- endmacro -%}

{#- The rank of the signal of most covered time; of two equals the better one. -#}
{%- macro signal_of_most_time(covered_us, graphics_us, utilization_us) -%}
    case
        when {{ covered_us }} - {{ graphics_us }} - {{ utilization_us }} >= greatest({{ graphics_us }}, {{ utilization_us }})
            then 1
        when {{ graphics_us }} >= {{ utilization_us }} then 2
        else 3
    end
{%- endmacro -%}

{#- The rank of a source among those that speak of one slot and time: of those that cover at least half of what the best
    coverer covers, the one with the best signal (semantics 4). -#}
{%- macro source_rank(partition) -%}
    row_number() over (
        partition by {{ partition }}
        order by
            case when covered_us > 0 and 2 * covered_us >= best_covered_us then 0 else 1 end nulls last,
            signal nulls last,
            covered_us desc nulls last,
            source nulls last
    )
{%- endmacro -%}
