{#- Fails for values outside [at_least, at_most]; a null is no value. -#}
{% test within(model, column_name, at_least=none, at_most=none) %}

select * from {{ of_this_build(model) }} as built
where
    false
    {% if at_least is not none %}or {{ column_name }} < {{ at_least }}{% endif %}
    {% if at_most is not none %}or {{ column_name }} > {{ at_most }}{% endif %}

{% endtest %}
