"""`make bench-agent`: what the agent costs a host of 8 GPUs read every second, against a stand-in for the NVML library.

Counted are the processes that stay (the agent and its readers): their processor time and resident memory while they
run, and beside them what landing an hour of such readings takes, in the process that does only that. The ratio compares
a tick with the bare calls: the same readings of 8 GPUs in a loop in one process, without agent, pipe, host or spool.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
FAKE = ROOT / "tests" / "unit" / "collectors" / "nvml" / "fake_nvml.c"
GPUS = 8
WARM_UP_SECONDS = 5
#: what the agent may take (issue "Every source in its own format")
MOST_CORE_RATIO, MOST_RESIDENT_MB = 0.01, 120


def environment(folder: Path) -> dict[str, str]:
    """An environment in which pynvml loads the stand-in, compiled here."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        sys.exit("bench-agent compiles a stand-in for libnvidia-ml.so.1 and needs a C compiler (apt-get install gcc)")
    library = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(FAKE)], check=True)
    state = folder / "state"
    state.write_text(f"gpus {GPUS}\ngpm 1\n" + "".join(f"process {gpu} - {os.getpid()} 1000 50\n" for gpu in range(GPUS)))
    return {
        **os.environ,
        "LD_LIBRARY_PATH": str(folder),
        "FAKE_NVML": str(state),
        "GPU_NET_HOME": str(folder / "home"),
    }


def tree(pid: int) -> list[int]:
    """A process and all that it started and that live, without those that land."""
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [pid, *(found for child in children for found in tree(child))]


def processor_seconds(pids: list[int]) -> float:
    """Time on a processor so far, of all threads."""
    times = [Path(path).read_text().split()[0] for pid in pids for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(map(int, times)) / 1e9


def resident_mb(pids: list[int]) -> float:
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def bare_milliseconds(variables: dict[str, str], rounds: int = 300) -> float:
    """Processor time of one reading of all GPUs, and nothing else."""
    program = (
        "import time\n"
        "from collectors.nvml.driver import session\n"
        "from collectors.nvml.device import Card\n"
        "with session():\n"
        f"    cards = [Card(index, None) for index in range({GPUS})]\n"
        "    begun = time.process_time()\n"
        f"    for _ in range({rounds}):\n"
        "        for card in cards: card.read(describe=False, with_processes=False)\n"
        f"    print((time.process_time() - begun) / {rounds} * 1000)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=variables, check=True, capture_output=True, text=True)
    return float(done.stdout)


def write_hour(spool: Path, hour: Path) -> int:
    """An hour of readings every second: the rows of `spool` again and again, each at its own time; how many rows."""
    lines = [json.loads(line) for line in spool.read_text().splitlines()]
    header = lines[0]
    samples = [line for line in lines if line[0] == "gpu_samples" and line[1].get("sm_active_ratio") is not None]
    begin = datetime.fromisoformat(header[1]["from"])
    latest = {line[1]["gpu_uuid"]: line for line in samples}
    with hour.open("w") as file:
        file.write(json.dumps(header) + "\n")
        for second in range(3600):
            at = (begin + timedelta(seconds=second)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            for kind, row in latest.values():
                file.write(json.dumps([kind, row | {"interval_start_at": at, "power_watts": 300 + second % 97}]) + "\n")
    return 3600 * len(latest)


def measure(seconds: int) -> bool:
    """Run, print, and say whether the agent keeps within its bounds."""
    with tempfile.TemporaryDirectory(prefix="gpu-net-bench-agent-") as name:
        folder = Path(name)
        variables = environment(folder)
        bare = bare_milliseconds(variables)
        command = [sys.executable, "-m", "collectors", "nvml", "--cluster", "bench", "--interval", "1"]
        agent = subprocess.Popen(command, cwd=ROOT, env=variables)
        try:
            time.sleep(WARM_UP_SECONDS)
            pids = tree(agent.pid)
            begun, before = time.monotonic(), processor_seconds(pids)
            resident = 0.0
            while time.monotonic() - begun < seconds:
                time.sleep(1)
                resident = max(resident, resident_mb(pids))
            ratio = (processor_seconds(pids) - before) / (time.monotonic() - begun)
            spool = next((folder / "home" / "state" / "nvml").glob("*/*.jsonl"))
            hour = folder / "hour.jsonl"
            rows, size = write_hour(spool, hour), hour.stat().st_size
        finally:
            agent.send_signal(signal.SIGTERM)
            agent.wait(120)
        lander = subprocess.Popen([sys.executable, "-m", "collectors.nvml.land", str(hour)], cwd=ROOT, env=variables)
        _, status, usage = os.wait4(lander.pid, 0)
        if os.waitstatus_to_exitcode(status):
            sys.exit("landing the hour failed")
    landing = usage.ru_utime + usage.ru_stime
    table = Table(title=f"The agent on {GPUS} GPUs every second, for {seconds} s", title_justify="left")
    for column in ("what", "measured", "bound"):
        table.add_column(column, justify="left" if column == "what" else "right")
    table.add_row("processor, agent and readers", f"{ratio:.2%} of a core", f"{MOST_CORE_RATIO:.0%}")
    table.add_row("resident memory, agent and readers", f"{resident:.0f} MB in {len(pids)} processes", f"{MOST_RESIDENT_MB} MB")
    table.add_row("a tick", f"{ratio * 1000:.1f} ms, {ratio * 1000 / bare:.1f} × the bare calls ({bare:.1f} ms)", "")
    table.add_row(
        f"landing an hour ({rows:,} rows, {size / 2**20:.0f} MB spooled)", f"{landing:.1f} s = {landing / 3600:.2%} of a core", ""
    )
    table.add_row("memory of the landing while it runs", f"{usage.ru_maxrss / 1024:.0f} MB", "")
    Console(width=130).print(table)
    return ratio <= MOST_CORE_RATIO and resident <= MOST_RESIDENT_MB


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    sys.exit(0 if measure(parser.parse_args().seconds) else 1)
