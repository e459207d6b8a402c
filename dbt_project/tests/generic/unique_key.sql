{#- Fails for keys that occur more than once and for keys with a null in them. -#}
{% test unique_key(model, columns) %}

select
    {% for column in columns %}{{ column }}, {% endfor %}count(*) as row_count
from {{ of_this_build(model) }} as built
group by {{ columns | join(', ') }}
having
    count(*) > 1
    {% for column in columns %}or {{ column }} is null
    {% endfor %}

{% endtest %}
