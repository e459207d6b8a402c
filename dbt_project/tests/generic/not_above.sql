{#- Fails for rows in which the column is greater than another one: a part above its whole. -#}
{% test not_above(model, column_name, whole, tolerance=0) %}

select * from {{ of_this_build(model) }} as built
where {{ column_name }} > {{ whole }} + {{ tolerance }}

{% endtest %}
