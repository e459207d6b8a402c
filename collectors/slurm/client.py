"""The Slurm commands of this host: the only module here that starts a process."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from datetime import datetime

from collectors.slurm.delimited import UNIT_SEPARATOR
from collectors.slurm.events import FIELDS
from collectors.slurm.fields import WANTED_FIELDS
from collectors.slurm.records import SourceFailedError

#: a command that takes longer hangs, or its database does
TIMEOUT_SECONDS = 600


class SlurmClient:
    """Asks Slurm with instants in epoch seconds, so that no clock change and no locale stands between it and us."""

    def sacct(self, since: datetime, until: datetime) -> bytes:
        """Every attempt of every user's jobs active in `[since, until)` (naive UTC), with their steps; a header line first."""
        known = {name.lower() for name in re.split(r"\s+", _run(["sacct", "--helpformat"]).decode("utf-8", "replace"))}
        fields = [name for name in WANTED_FIELDS if name.lower() in known]
        return _run(
            [
                "sacct",
                "--allusers",
                "--duplicates",
                "--parsable2",
                f"--delimiter={UNIT_SEPARATOR}",
                f"--starttime={since:%Y-%m-%dT%H:%M:%S}",
                f"--endtime={until:%Y-%m-%dT%H:%M:%S}",
                f"--format={','.join(fields)}",
            ]
        )

    def nodes(self) -> str:
        """`scontrol show node`, one node per line, hidden ones too."""
        return _run(["scontrol", "--all", "--oneliner", "show", "node"]).decode("utf-8", "replace")

    def jobs(self) -> str:
        """`scontrol show job` with the devices of each node: jobs that wait, run, or ended within MinJobAge (5 minutes)."""
        return _run(["scontrol", "--all", "--oneliner", "--details", "show", "job"]).decode("utf-8", "replace")

    def events(self, since: datetime, until: datetime) -> str:
        """`sacctmgr show event` of nodes that were out of service in `[since, until)` (naive UTC), with both ends."""
        window = (f"start={since:%Y-%m-%dT%H:%M:%S}", f"end={until:%Y-%m-%dT%H:%M:%S}")
        command = ["sacctmgr", "--parsable2", "--readonly", "show", "event", "event=node", *window, f"format={','.join(FIELDS)}"]
        return _run(command).decode("utf-8", "replace")

    def cluster_name(self) -> str | None:
        """What the controller calls this cluster."""
        found = re.search(r"(?m)^ClusterName\s*=\s*(\S+)", _run(["scontrol", "show", "config"]).decode("utf-8", "replace"))
        return found[1] if found else None

    def version(self) -> str:
        """`slurm 22.05.8`."""
        return _run(["sacct", "--version"]).decode("utf-8", "replace").strip()


def _run(command: Sequence[str]) -> bytes:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SACCT_", "SCONTROL_"))}
    environment |= {"TZ": "UTC", "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
    except FileNotFoundError:
        raise SourceFailedError(
            f"{command[0]} is not here; run this where Slurm's commands are, or land what it printed there: slurm FILE"
        ) from None
    except subprocess.TimeoutExpired:
        raise SourceFailedError(f"{command[0]} did not answer in {TIMEOUT_SECONDS} s; ask for less: --since, --until") from None
    if done.returncode:
        message = done.stderr.decode("utf-8", "replace").strip() or "no message"
        raise SourceFailedError(f"{' '.join(command[:2])} failed ({done.returncode}): {message}; is slurmdbd up (sacctmgr ping)?")
    return done.stdout
