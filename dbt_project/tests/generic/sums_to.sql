{#- Fails for rows whose parts do not add up to the total, a total that is null beside known parts included. -#}
{% test sums_to(model, parts, total, tolerance=0) %}

with

added as (

    select
        *,
        {% for part in parts %}{{ part }}{{ ' + ' if not loop.last }}{% endfor %} as sum_of_parts

    from {{ of_this_build(model) }} as built

)

select * from added
where
    abs(sum_of_parts - {{ total }}) > {{ tolerance }}
    or ({{ total }} is null and sum_of_parts is not null)
    or ({{ total }} is not null and sum_of_parts is null)

{% endtest %}
