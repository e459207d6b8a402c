"""`python -m warehouse COMMAND`: build, gate, publish and look at the warehouse."""

from __future__ import annotations

import click

from warehouse.command_line import LazyCommands

#: command → where it lives; imported only when it runs
COMMANDS = {
    "init": "warehouse.init.command:init_command",
    "build": "warehouse.build:build_command",
    "publish": "warehouse.publication.publish:publish_command",
    "rollback": "warehouse.publication.rollback:rollback_command",
    "run": "warehouse.pipeline:run_command",
    "diff": "warehouse.differences.command:diff_command",
    "status": "warehouse.status:status_command",
    "digest": "warehouse.digest.command:digest_command",
    "questions": "warehouse.questions.command:questions_command",
    "alerts": "warehouse.alerts.command:alerts_command",
    "docs": "warehouse.project_docs:docs_command",
    "what-if": "warehouse.what_if:what_if_command",
    "list-prices": "warehouse.landing.list_prices:list_prices_command",
    "compact": "warehouse.maintenance:compact_command",
    "retention": "warehouse.maintenance:retention_command",
    "export-postgres": "warehouse.postgres.command:export_postgres_command",
}


@click.group(cls=LazyCommands, places=COMMANDS)
def main() -> None:
    """Build, gate, publish and look at the warehouse in GPU_NET_HOME."""


if __name__ == "__main__":
    main(prog_name="python -m warehouse")
