"""### Build the warehouse, gate it, publish it

Rebuilds the UTC days that landings have touched since the last build, runs the quality gate on the result and
publishes it. Starts when a source has landed (`raw_*`), and each hour at :30 for what landed by command line.

**Owner**: gpu-net. **When it fails**: readers keep the last good version. The last lines of the failed task say why.
`build`: the model or test that failed and its message; nothing was changed for readers. `publish` with *held*: the
critical checks that failed, with what each means; `python -m expectations explain CHECK` shows the rows behind one, and
`build/data_docs/index.html` all checks. Correct the source, land it again, and the next run publishes. Something wrong was
published: `python -m warehouse rollback` shows readers the version before, `python -m warehouse diff` what moved.
`alert` (what fires of `config/alert_rules.csv`, told by the connections `gpu_net_slack`, `gpu_net_teams`, `gpu_net_webhook`
and `gpu_net_smtp`) fails no run: its last lines say which message did not arrive, and the next run tells it.
Clearing a task is always safe.
"""

from __future__ import annotations

from airflow.sdk import AssetAny, AssetOrTimeSchedule, CronTriggerTimetable, dag
from gpu_net_build import build_gate_publish
from gpu_net_steps import DEFAULT_ARGS, RAW_ASSETS, START_DATE


@dag(
    schedule=AssetOrTimeSchedule(timetable=CronTriggerTimetable("30 * * * *", timezone="UTC"), assets=AssetAny(*RAW_ASSETS)),
    start_date=START_DATE,
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULT_ARGS,
    doc_md=__doc__,
    tags=["layer:warehouse", "source:all", "impact:tier_1"],
)
def build_warehouse() -> None:
    build_gate_publish()


build_warehouse()
