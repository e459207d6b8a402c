"""The idle map: how much of each GPU's hours was ghost capacity, of a large fleet of each node's days."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import duckdb

from warehouse.digest import words
from warehouse.digest.figures import OUT_OF_SERVICE
from warehouse.report.columns import Lists
from warehouse.report.sizes import MAP_DAYS, MAP_HOURS, MOST_MAP_CELLS
from warehouse.sql import compose, identifier

#: what a map's cell shows instead of a ghost's share: nothing was there, or it was out of service
NOTHING, OUT = -1, -2
#: of each device and step of time: the ghost's share, and the state with the most time
_MAP = """
with parts as (
    select {device} as device, {step} as place, state, sum(gpu_hours) as gpu_hours
    from fct_gpu_ledger_hourly as ledger inner join dim_gpus using (gpu_id)
    where ledger.usage_date between $start and $last
    group by all
)
select device, place, sum(case when is_ghost then gpu_hours else 0 end) / nullif(sum(gpu_hours), 0), arg_max(state, gpu_hours)
from parts inner join dim_states using (state)
group by device, place
"""
_GPU_HOURS = compose(
    _MAP, device=identifier("ledger", "gpu_id"), step=compose("date_diff('hour', cast($start as timestamp), hour_start_at)")
)
_NODE_DAYS = compose(_MAP, device=identifier("dim_gpus", "node_id"), step=compose("date_diff('day', $start, ledger.usage_date)"))


def read_map(connection: duckdb.DuckDBPyConnection, lists: Lists, states: dict[str, int], last: date) -> dict[str, Any]:
    """By device and step of time to `last` the ghost's share in percent, and the state that had the most time."""
    devices = connection.execute(
        """select gpu_id, node_id, cluster, node, row_number() over (partition by node_id order by pci_bus_id, gpu_id) - 1
        from dim_gpus order by cluster, node, 5"""
    ).fetchall()
    if len(devices) * MAP_HOURS <= MOST_MAP_CELLS:
        unit, count, query = "hour", MAP_HOURS, _GPU_HOURS
        start = last - timedelta(days=MAP_HOURS // 24 - 1)
        labels = {gpu: (f"{words.clean(node, 30)} / {number}", cluster) for gpu, _, cluster, node, number in devices}
    else:
        labels = {node_id: (words.clean(node, 30), cluster) for _, node_id, cluster, node, _ in devices}
        unit, count, query = "day", max(1, min(MAP_DAYS, MOST_MAP_CELLS // len(labels))), _NODE_DAYS
        start = last - timedelta(days=count - 1)
    places = {device: place for place, device in enumerate(labels)}
    shares = [[NOTHING] * count for _ in labels]
    kinds = [[0] * count for _ in labels]
    for device, place, ratio, state in connection.execute(query, {"start": start, "last": last}).fetchall():
        if device in places and 0 <= place < count:
            shares[places[device]][place] = OUT if state == OUT_OF_SERVICE else round((ratio or 0.0) * 100)
            kinds[places[device]][place] = states[state]
    return {
        "unit": unit,
        "start": f"{start}",
        "count": count,
        "devices": [{"name": name, "cluster": lists.cluster(cluster)} for name, cluster in labels.values()],
        "shares": shares,
        "states": kinds,
    }
