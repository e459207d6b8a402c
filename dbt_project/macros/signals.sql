{#- The name of a signal by its rank (semantics 4): 1 is the best. -#}
{%- macro signal_name(signal) -%}
    case {{ signal }}
        when 1 then 'sm_active'
        when 2 then 'graphics_engine_active'
        when 3 then 'gpu_utilization'
        else 'none'
    end
{%- endmacro -%}
