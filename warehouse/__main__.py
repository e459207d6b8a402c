"""`python -m warehouse COMMAND`: build, gate, publish and look at the warehouse."""

from __future__ import annotations

import importlib

import click

#: command → where it lives; imported only when it runs
COMMANDS = {
    "build": "warehouse.build:build_command",
    "publish": "warehouse.publish:publish_command",
    "run": "warehouse.pipeline:run_command",
    "status": "warehouse.status:status_command",
    "compact": "warehouse.maintenance:compact_command",
    "retention": "warehouse.maintenance:retention_command",
}


class Commands(click.Group):
    """A group that imports a command's module when the command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = COMMANDS.get(cmd_name)
        if place is None:
            return None
        module, name = place.split(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command


@click.group(cls=Commands)
def main() -> None:
    """Build, gate, publish and look at the warehouse in GPU_NET_HOME."""


if __name__ == "__main__":
    main(prog_name="python -m warehouse")
