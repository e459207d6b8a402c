"""### Rebuild named days, or everything

Manual. Builds the days from `since` up to, not including, `until` (UTC dates; empty: no bound), whether or not a
landing touched them, then gates and publishes like `build_warehouse`. With `full_refresh` every table is made anew.
For the day after a rule, a threshold or a model changed.

**Owner**: gpu-net. **When it fails**: as for `build_warehouse`; readers keep the last good version, and the run can be
repeated with the same parameters.
"""

from __future__ import annotations

from airflow.sdk import Param, dag
from gpu_net_build import build_gate_publish
from gpu_net_steps import DEFAULT_ARGS, START_DATE


@dag(
    schedule=None,
    start_date=START_DATE,
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULT_ARGS,
    doc_md=__doc__,
    tags=["layer:warehouse", "source:all", "impact:tier_3"],
    params={
        "since": Param(None, type=["null", "string"], format="date", description="first UTC day to rebuild"),
        "until": Param(None, type=["null", "string"], format="date", description="the day after the last one"),
        "full_refresh": Param(False, type="boolean", description="make every table anew from all that has landed"),
    },
)
def rebuild_window() -> None:
    build_gate_publish()


rebuild_window()
