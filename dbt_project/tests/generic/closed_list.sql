{#- Fails for values that are not in a column of another model: the closed lists of seeds and dimensions. -#}
{% test closed_list(model, column_name, to, field) %}

select model.{{ column_name }}
from {{ of_this_build(model) }} as model
left join {{ to }} as listed
    on model.{{ column_name }} = listed.{{ field }}
where listed.{{ field }} is null
group by model.{{ column_name }}

{% endtest %}
