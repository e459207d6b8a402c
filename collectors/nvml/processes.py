"""Who a process belongs to: the Slurm job, pod and container of its cgroup, and its owner.

Read where the process is read (the reader's process): a look into /proc of a process that hangs may hang as well.
Neither command line nor environment is landed; of the environment only `SLURM_JOB_ID` is looked at, and only where the
cgroup tells neither job nor pod (sites without cgroup tracking).
"""

from __future__ import annotations

import os
import pwd
import re
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

#: v1 `/slurm/uid_1000/job_42/step_0/task_0`, v2 `/system.slice/slurmstepd.scope/job_42/step_0/user/task_0`
_JOB = re.compile(r"slurm.*/job_(\d+)(?:/|$)")
#: cgroupfs `/kubepods/burstable/pod<uid>/…`, systemd `…-pod<uid with _ for ->.slice/…`; a static pod's uid is a hash
_POD = re.compile(r"[/-]pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?=[./:]|$)")
#: `cri-containerd-<id>.scope`, `crio-<id>.scope`, `docker-<id>.scope`, `cri-containerd:<id>`, or the id alone
_CONTAINER = re.compile(r"[/:-]([0-9a-f]{64})(?=\.scope|[/:]|$)")
_SLURM_JOB_ID = re.compile(rb"(?:^|\0)SLURM_JOB_ID=(\d+)(?:\0|$)")
_LARGEST_ENVIRONMENT = 1 << 20


def identify(pid: int, proc: Path = Path("/proc")) -> dict[str, str]:
    """`job_id`, `pod_uid`, `container_id` and `user` of a process, as far as they can be told."""
    folder = proc / str(pid)
    found: dict[str, str] = {}
    with suppress(OSError):  # ended since, or in another PID namespace
        found = read_cgroup((folder / "cgroup").read_text(errors="replace"))
    with suppress(OSError):
        if not found:
            with (folder / "environ").open("rb") as file:
                match = _SLURM_JOB_ID.search(file.read(_LARGEST_ENVIRONMENT))
            if match:
                found["job_id"] = match.group(1).decode()
        # without a key nobody's name is landed, so nobody is looked up
        if os.environ.get("GPU_NET_USER_KEY"):
            found["user"] = _user(folder.stat().st_uid)
    return found


def read_cgroup(text: str) -> dict[str, str]:
    """`job_id`, `pod_uid` and `container_id` in the lines of /proc/<pid>/cgroup, v1 or v2."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        path = line.split(":", 2)[-1]
        if match := _JOB.search(path):
            found.setdefault("job_id", match.group(1))
        if match := _POD.search(path):
            found.setdefault("pod_uid", match.group(1).replace("_", "-"))
        if containers := _CONTAINER.findall(path):
            found.setdefault("container_id", containers[-1])
    return found


@lru_cache(maxsize=1024)
def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
