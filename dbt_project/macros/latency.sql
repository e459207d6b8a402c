{#- Histograms of requests by latency: servers with other boundaries are brought onto one set of boundaries before they
    are added, percentiles are read on a straight line inside a bucket. -#}

{#- Buckets (`key`, above_seconds, le_seconds, request_count) merged per `key`: one row per boundary that any of them has,
    with the requests up to it (reached_count), up to the boundary below (above_count, above_seconds) and in all
    (total_count). A histogram without a boundary counts up to it as far as a straight line inside its bucket reaches; of
    its last, open bucket nothing is known but that it lies above. `relation` is a common table expression, `key` a list
    of columns. -#}
{%- macro merged_buckets(relation, key) -%}
    {%- set columns = key | join(', ') -%}
    select
        reached.*,
        coalesce(lag(le_seconds) over (partition by {{ columns }} order by le_seconds nulls last), cast(0 as double)) as above_seconds,
        coalesce(lag(reached_count) over (partition by {{ columns }} order by le_seconds nulls last), cast(0 as double)) as above_count,
        max(reached_count) over (partition by {{ columns }}) as total_count

    from (
        select
            {% for name in key %}boundaries.{{ name }}, {% endfor %}
            boundaries.le_seconds,
            sum(
                case
                    when buckets.le_seconds <= boundaries.le_seconds then buckets.request_count
                    when buckets.above_seconds >= boundaries.le_seconds or not {{ is_finite('buckets.le_seconds') }} then 0
                    else
                        buckets.request_count * (boundaries.le_seconds - buckets.above_seconds)
                        / nullif(buckets.le_seconds - buckets.above_seconds, 0)
                end
            ) as reached_count

        from (
            select distinct {{ columns }}, le_seconds
            from {{ relation }}
        ) as boundaries
        inner join {{ relation }} as buckets
            on {% for name in key %}boundaries.{{ name }} = buckets.{{ name }}{{ ' and ' if not loop.last }}{% endfor %}
        group by {% for name in key %}boundaries.{{ name }}, {% endfor %}boundaries.le_seconds
    ) as reached
{%- endmacro -%}

{#- Whether a merged bucket is the one in which the `rank` (0.95) of its histogram lies. -#}
{%- macro holds_rank(rank) -%}
    (total_count > 0 and above_count < {{ rank }} * total_count and reached_count >= {{ rank }} * total_count)
{%- endmacro -%}

{#- The latency within which the part `rank` of the requests of merged buckets was answered: an aggregate over their key.
    Null where it lies in the open last bucket: all that is known is that it is higher than the last boundary. -#}
{%- macro latency_percentile(rank) -%}
    max(
        case
            when {{ holds_rank(rank) }} and {{ is_finite('le_seconds') }}
                then
                    above_seconds
                    + (le_seconds - above_seconds) * ({{ rank }} * total_count - above_count)
                    / nullif(reached_count - above_count, 0)
        end
    )
{%- endmacro -%}
