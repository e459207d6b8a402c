"""Airflow on this machine: its home, starting and ending it (`make up`, `make down`, `make demo`). Holds no DAGs."""
