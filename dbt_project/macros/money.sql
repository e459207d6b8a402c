{#- Money is cut in whole units (micro-units of a currency, microseconds), so that the parts add up to the last digit. -#}

{#- The whole part of a * b / c, and what is left of it; all three whole numbers, none negative. -#}
{%- macro product_quotient(a, b, c) -%}
    {{ adapter.dispatch('product_quotient', 'gpu_net')(a, b, c) }}
{%- endmacro -%}
{%- macro duckdb__product_quotient(a, b, c) -%}
    (cast({{ a }} as hugeint) * cast({{ b }} as hugeint) // nullif(cast({{ c }} as hugeint), 0))
{%- endmacro -%}

{%- macro product_remainder(a, b, c) -%}
    {{ adapter.dispatch('product_remainder', 'gpu_net')(a, b, c) }}
{%- endmacro -%}
{%- macro duckdb__product_remainder(a, b, c) -%}
    (cast({{ a }} as hugeint) * cast({{ b }} as hugeint) % nullif(cast({{ c }} as hugeint), 0))
{%- endmacro -%}

{#- An amount of money as whole micro-units, rounded half away from zero; and back. -#}
{%- macro as_micros(amount) -%}
    cast(round({{ amount }} * 1000000) as bigint)
{%- endmacro -%}

{%- macro from_micros(micros) -%}
    cast(cast({{ micros }} as decimal(19, 0)) * 0.000001 as decimal(18, 6))
{%- endmacro -%}

{#- `relation` with a column `part`: its `amount` (whole units, equal on all rows of a whole) shared out by `weight`
    (whole, none negative) over the rows that agree in `whole`. Each part is rounded towards zero; the units that are
    left go one each to the parts with the largest fractions, ties to the lowest `ties`: the parts add up to the amount.
    Where all weights are 0 the part is null. `whole` and `ties` are lists of columns. -#}
{%- macro shared_out(relation, amount, weight, whole, ties) -%}
    {%- set whole_columns = whole | join(', ') -%}
    select
        ranked.*,
        cast(
            case when {{ amount }} < 0 then -1 else 1 end
            * (part_floor + case when part_rank <= units_left then 1 else 0 end)
            as bigint
        ) as part

    from (
        select
            floored.*,
            abs({{ amount }}) - sum(part_floor) over (partition by {{ whole_columns }}) as units_left,
            row_number() over (
                partition by {{ whole_columns }}
                order by part_remainder desc nulls last, {{ ties | join(' nulls last, ') }} nulls last
            ) as part_rank

        from (
            select
                weighed.*,
                {{ product_quotient('abs(' ~ amount ~ ')', weight, 'weight_sum') }} as part_floor,
                {{ product_remainder('abs(' ~ amount ~ ')', weight, 'weight_sum') }} as part_remainder

            from (
                select
                    {{ relation }}.*,
                    sum({{ weight }}) over (partition by {{ whole_columns }}) as weight_sum

                from {{ relation }}
            ) as weighed
        ) as floored
    ) as ranked
{%- endmacro -%}

{#- A text of a bill: trimmed, the empty text and the text NULL are null. -#}
{%- macro billed_text(column) -%}
    case when upper(trim({{ column }})) in ('', 'NULL') then null else trim({{ column }}) end
{%- endmacro -%}

{#- One row for each bucket of a histogram (a list of structs), as a struct; its members; its boundaries as text. -#}
{%- macro each_bucket(histogram) -%}
    {{ adapter.dispatch('each_bucket', 'gpu_net')(histogram) }}
{%- endmacro -%}
{%- macro duckdb__each_bucket(histogram) -%}
    unnest({{ histogram }})
{%- endmacro -%}

{%- macro struct_member(struct, member) -%}
    {{ adapter.dispatch('struct_member', 'gpu_net')(struct, member) }}
{%- endmacro -%}
{%- macro duckdb__struct_member(struct, member) -%}
    struct_extract({{ struct }}, '{{ member }}')
{%- endmacro -%}

{%- macro histogram_layout(histogram) -%}
    {{ adapter.dispatch('histogram_layout', 'gpu_net')(histogram) }}
{%- endmacro -%}
{%- macro duckdb__histogram_layout(histogram) -%}
    cast(list_transform({{ histogram }}, lambda bucket: bucket.le_seconds) as varchar)
{%- endmacro -%}

{#- What tells one source of inference usage from another: the columns by which its workload is found. -#}
{%- macro usage_source_key() -%}
    md5(concat_ws(
        '|', cluster, server, coalesce(node, ''), coalesce(job_id, ''), coalesce(namespace, ''), coalesce(workload, '')
    ))
{%- endmacro -%}

{#- Whether the status a gateway wrote (a word, or an HTTP code) says that the request failed. -#}
{%- macro is_failed_status(status) -%}
    coalesce(
        lower(trim({{ status }})) in (
            'failed', 'failure', 'error', 'errored', 'exception', 'timeout', 'timed_out', 'cancelled', 'canceled', 'aborted',
            'rejected'
        )
        or {{ is_found("'^[45][0-9][0-9]$'", 'trim(' ~ status ~ ')') }},
        false
    )
{%- endmacro -%}

{%- macro is_finite(value) -%}
    {{ adapter.dispatch('is_finite', 'gpu_net')(value) }}
{%- endmacro -%}
{%- macro duckdb__is_finite(value) -%}
    isfinite({{ value }})
{%- endmacro -%}

{#- A unit cost: `amount` per `units` of `per`, null where there are none, rounded once. -#}
{%- macro unit_cost(amount, units, per=1) -%}
    cast(round(cast({{ amount }} as double) * {{ per }} / nullif({{ units }}, 0), 6) as decimal(18, 6))
{%- endmacro -%}
