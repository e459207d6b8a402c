"""`make demo`: a small made-up fleet, from files to a published table, through Airflow's own DAG runs."""
