"""Published tables with the names that readers want beside them, as SQL that stands in a `from`.

The mail, the report and whoever else shows figures take them from here, so that one figure has one origin. A row without a
price has no `priced_currency`; its hours are counted, and its money is not known.
"""

from __future__ import annotations

from warehouse.sql import compose

_PRICED_CURRENCY = compose("case when cost is not null and currency <> 'unknown' then currency end as priced_currency")

_WATERFALL = """(
    select usage_date, mart.cluster, mart.workload_id, coalesce(workload, mart.workload_id) as workload, mart.team, state, label,
        dim_states.is_ghost, currency, {priced_currency}, gpu_hours, cost{more}
    from mart_ghost_capacity_daily as mart
    left join dim_workloads using (workload_id)
    inner join dim_states using (state)
)"""
_LEDGER = """(
    select usage_date, ledger.cluster, ledger.workload_id, coalesce(workload, ledger.workload_id) as workload,
        coalesce(team, 'unknown') as team, state, label, state_reason, dim_states.is_ghost, cost_source, currency,
        {priced_currency}, gpu_hours, cost{more}
    from fct_gpu_ledger_hourly as ledger
    left join dim_workloads using (workload_id)
    inner join dim_states using (state)
)"""
_NO_MORE, _REPORTING = compose(""), compose(", cost_reporting")

#: the waterfall by day, cluster, workload and state, unused commitments included
WATERFALL = compose(_WATERFALL, priced_currency=_PRICED_CURRENCY, more=_NO_MORE)
#: the same with its money in the reporting currency, for a file whose build had a rate
WATERFALL_REPORTING = compose(_WATERFALL, priced_currency=_PRICED_CURRENCY, more=_REPORTING)

#: the ledger by hour: the same time, with the reason of each state and where its price comes from
LEDGER = compose(_LEDGER, priced_currency=_PRICED_CURRENCY, more=_NO_MORE)
LEDGER_REPORTING = compose(_LEDGER, priced_currency=_PRICED_CURRENCY, more=_REPORTING)

#: tokens, requests and what they cost by day, workload and model
ECONOMICS = compose(
    """(
    select mart.*, coalesce(dim_workloads.workload, workload_id) as workload, coalesce(team, 'unknown') as team
    from mart_unit_economics_daily as mart
    left join dim_workloads using (workload_id)
)"""
)
