"""`make demo`: a made-up fleet, from files to a published table and a mail, through Airflow's own DAG runs."""
