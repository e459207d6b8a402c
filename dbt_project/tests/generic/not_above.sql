{#- Fails for rows in which the column is greater than another one: a part above its whole. -#}
{% test not_above(model, column_name, whole, tolerance=0) %}

select * from {{ model }}
where {{ column_name }} > {{ whole }} + {{ tolerance }}

{% endtest %}
