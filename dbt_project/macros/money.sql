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

{#- A provider's id of a resource as bills and nodes can be compared by it, whatever way it is written: in lower case,
    without the scheme and host of a URL and the slashes at its ends; an EC2 instance's ARN and provider id are `i-…`, a
    Google instance's full name is project/zone/name, as Kubernetes writes it, and the third machine of a scale set `vmss`
    is `…/virtualmachines/vmss_3`, as Azure names the machine. Null for the empty text. -#}
{%- macro resource_key(value) -%}
    {{ scale_set_machine(bare_resource(value)) }}
{%- endmacro -%}

{%- macro bare_resource(value) -%}
    nullif(
        regexp_replace(
            replace(
                replace(
                    trim(both '/' from regexp_replace(
                        lower(trim({{ value }})),
                        '^(arn:aws[a-z-]*:ec2:[^:]*:[^:]*:instance/|aws:///[^/]*/|gce://|azure:/+|oci:/+|(https?:)?//[a-z0-9.-]*googleapis[.]com/(compute/[a-z0-9]+/)?)',
                        ''
                    )),
                    '/zones/', '/'
                ),
                '/instances/', '/'
            ),
            '^projects/', ''
        ),
        ''
    )
{%- endmacro -%}

{%- macro scale_set_machine(bare) -%}
    case
        when {{ bare }} like '%/virtualmachinescalesets/%/virtualmachines/%'
            then concat(
                regexp_replace({{ bare }}, '/virtualmachinescalesets/.*$', ''),
                '/virtualmachines/',
                replace(regexp_replace({{ bare }}, '^.*/virtualmachinescalesets/', ''), '/virtualmachines/', '_')
            )
        else {{ bare }}
    end
{%- endmacro -%}

{#- What a resource key ends with: the name behind the last slash or colon. -#}
{%- macro resource_name(resource_key) -%}
    regexp_replace({{ resource_key }}, '^.*[/:]', '')
{%- endmacro -%}

{#- The join of a relation with `currency` and `usage_date` to the exchange rate of its day: that in force at its start. -#}
{%- macro join_exchange_rate(relation) -%}
    left join {{ ref('int_exchange_rates') }} as exchange_rates
        on
            {{ relation }}.currency = exchange_rates.currency
            and cast({{ relation }}.usage_date as timestamp) >= exchange_rates.valid_from_at
            and cast({{ relation }}.usage_date as timestamp) < exchange_rates.valid_to_at
{%- endmacro -%}

{#- An amount in the reporting currency, by the rate that `join_exchange_rate` found; null without one. -#}
{%- macro in_reporting_currency(amount) -%}
    case
        when exchange_rates.rate = 1 then cast({{ amount }} as decimal(18, 6))
        else cast(round(cast({{ amount }} as double) * exchange_rates.rate, 6) as decimal(18, 6))
    end
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

{#- A unit cost: `amount` for `per` of the `units`, rounded once; null where there are none, or where the row's
    `is_priced` is false. -#}
{%- macro unit_cost(amount, units, per=1) -%}
    case
        when is_priced then cast(round(cast({{ amount }} as double) * {{ per }} / nullif({{ units }}, 0), 6) as decimal(18, 6))
    end
{%- endmacro -%}

{#- The days whose money changes though no row of theirs was landed, given the days touched so far (a relation with
    `usage_date`): all days of a charge that spans several, if one of them is touched, since it falls to them by the
    device-time of all; and, where a bill was landed or the last delivered day changed, the later days, since their
    estimates rest on it. -#}
{%- macro days_repriced(touched) -%}
    select distinct cast({{ each_touched('day', 'long_charges.starts_at', 'long_charges.ends_at') }} as date) as usage_date
    from (
        select distinct
            lines.charge_period_start as starts_at,
            least(lines.charge_period_end, ends.through_at) as ends_at

        from (
            select distinct
                charge_period_start,
                charge_period_end,
                {{ resource_name(resource_key('resource_id')) }} as resource_name

            from {{ ref('stg_landing__billing_lines') }}
            where charge_period_end > date_trunc('day', charge_period_start) + interval 1 day
        ) as lines
        -- a machine is sighted thousands of times
        inner join (
            select distinct {{ resource_name(resource_key('provider_resource_id')) }} as resource_name
            from (
                select distinct provider_resource_id
                from {{ ref('int_gpu_inventory_changes') }}
            ) as sighted
        ) as machines
            on lines.resource_name = machines.resource_name
        cross join (
            select max(data_through_at) as through_at
            from {{ source('control', 'data_through') }}
            where table_group = 'telemetry'
        ) as ends
    ) as long_charges
    where
        long_charges.starts_at < long_charges.ends_at
        and exists (
            select 1
            from {{ touched }} as touched_days
            where
                touched_days.usage_date >= cast(long_charges.starts_at as date)
                and touched_days.usage_date <= cast(long_charges.ends_at as date)
        )

    union

    select cast({{ each_touched('day', 'later.starts_at', 'later.ends_at') }} as date) as usage_date
    from (
        select
            cast(min(basis_days.usage_date) as timestamp) as starts_at,
            max(ends.through_at) as ends_at

        from (
            select days_landed.usage_date
            from {{ source('control', 'days_landed') }} as days_landed
            where days_landed.table_name = 'billing_lines'

            union all

            select touched_days.usage_date
            from {{ touched }} as touched_days
            inner join {{ ref('int_billing_delivered_through') }} as delivered
                on touched_days.usage_date = delivered.delivered_through_date
        ) as basis_days
        cross join (
            select max(data_through_at) as through_at
            from {{ source('control', 'data_through') }}
            where table_group = 'telemetry'
        ) as ends
    ) as later
    where later.starts_at < later.ends_at
{%- endmacro -%}
