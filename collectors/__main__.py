"""`python -m collectors SOURCE …` reads a source and lands it."""

from __future__ import annotations

import importlib

import click

#: command → where it lives; imported only when it runs, so that an agent loads no more than it needs
COMMANDS = {
    "check": "collectors.check:check",
    "dcgm": "collectors.dcgm.collect:dcgm",
    "slurm": "collectors.slurm.collect:slurm",
    "billing": "collectors.billing.collect:billing",
    "import": "collectors.tables.collect:import_table",
    "incoming": "collectors.incoming:incoming",
}


class Sources(click.Group):
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


@click.group(cls=Sources)
def main() -> None:
    """Read a source of GPU data and land it in GPU_NET_HOME.

    Exit codes: 0 landed, 1 the source failed, 2 wrong usage, 4 landed but some rows were quarantined.
    """


if __name__ == "__main__":
    main(prog_name="python -m collectors")
