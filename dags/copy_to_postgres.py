"""### Copy the published tables to PostgreSQL

For clients that cannot open a DuckDB file: Metabase, Grafana. After each publication the marts, dimensions and audits are
replaced in one transaction, in the schema `gpu_net` of the database that the Airflow connection `gpu_net_postgres` names.
Skips where there is no such connection.

**Set up**: a connection `gpu_net_postgres` of type Postgres (or any) with host, port, login, password and, as its schema, the
database. `GPU_NET_POSTGRES_SCHEMA` and `GPU_NET_POSTGRES_TABLES` (patterns, separated by blanks) change what is copied where.

**Owner**: gpu-net. **When it fails**: readers of the copy keep the version before. The last lines say what the server
answered; the next publication, or clearing the task, copies again.
"""

from __future__ import annotations

from airflow.sdk import dag, task
from gpu_net_steps import DEFAULT_ARGS, START_DATE, WAREHOUSE_PUBLISHED, run_command

CONNECTION = "gpu_net_postgres"


@dag(
    schedule=[WAREHOUSE_PUBLISHED],
    start_date=START_DATE,
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULT_ARGS,
    doc_md=__doc__,
    tags=["layer:copy", "source:all", "impact:tier_2"],
)
def copy_to_postgres() -> None:
    @task
    def copy() -> None:
        from airflow.sdk import BaseHook
        from airflow.sdk.exceptions import AirflowNotFoundException, AirflowSkipException

        try:
            uri = BaseHook.get_connection(CONNECTION).get_uri()
        except AirflowNotFoundException:
            raise AirflowSkipException(f"no connection {CONNECTION}: no database to copy to") from None
        # whatever type the connection was given, libpq reads the rest
        run_command("warehouse", "export-postgres", secrets={"GPU_NET_POSTGRES_URL": "postgresql://" + uri.partition("://")[2]})

    copy()


copy_to_postgres()
