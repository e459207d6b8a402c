"""A copy of the published tables in PostgreSQL, for clients that cannot open a DuckDB file (Metabase, Grafana)."""
