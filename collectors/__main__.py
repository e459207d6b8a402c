"""`python -m collectors SOURCE …` reads a source and lands it."""

from __future__ import annotations

import click

from warehouse.command_line import LazyCommands

#: command → where it lives; imported only when it runs, so that an agent loads no more than it needs
COMMANDS = {
    "check": "collectors.check:check",
    "nvml": "collectors.nvml.collect:nvml",
    "nvidia-smi": "collectors.nvidia_smi.collect:nvidia_smi",
    "dcgm": "collectors.dcgm.collect:dcgm",
    "prometheus": "collectors.prometheus.collect:prometheus",
    "slurm": "collectors.slurm.collect:slurm",
    "kubernetes": "collectors.kubernetes.collect:kubernetes",
    "sonar": "collectors.sonar.collect:sonar",
    "inference": "collectors.inference.collect:inference",
    "requests": "collectors.requests.collect:requests",
    "billing": "collectors.billing.collect:billing",
    "import": "collectors.tables.collect:import_table",
    "incoming": "collectors.incoming:incoming",
    "simulate": "collectors.simulate.collect:simulate",
}


@click.group(cls=LazyCommands, places=COMMANDS)
def main() -> None:
    """Read a source of GPU data and land it in GPU_NET_HOME.

    Exit codes: 0 landed, 1 the source failed, 2 wrong usage, 4 landed but some rows were quarantined.
    """


if __name__ == "__main__":
    main(prog_name="python -m collectors")
