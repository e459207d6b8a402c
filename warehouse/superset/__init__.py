"""Apache Superset over the published database, in an environment of its own: `make bi-superset`.

`command` builds the environment and starts and ends the server; `serve` and `settings` run inside it and import nothing of ours.
The dashboard is in `dbt_project/dashboards/superset`.
"""
