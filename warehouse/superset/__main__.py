"""`python -m warehouse.superset up | down | export`."""

from warehouse.superset.command import main

main(prog_name="python -m warehouse.superset")
