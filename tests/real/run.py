"""`make real`: land the captures, build, gate, publish; print the first screen, and the golden figures beside the measured.

Exit codes: 0 all figures agree, 1 a figure is off or a step failed, 2 the captures are not here, 3 the gate held the build.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from contextlib import redirect_stderr

from rich.console import Console
from rich.table import Table

from tests.conftest import PROJECT_ROOT, REAL_DATA
from tests.real import golden
from tests.real.systems import systems
from warehouse.first_screen import show
from warehouse.home import Home

HOME = PROJECT_ROOT / ".real" / "data"
NOTES = PROJECT_ROOT / ".real" / "collectors.log"
ABSENT = (
    f"make real: the captures are not here. They are no part of this repository: put them into ../{REAL_DATA.parent.parent.name}"
    "/data/real beside the project's folder (one folder per system, as PROVENANCE.md there lists them) and try again"
)


def main() -> int:
    """Do all of it; the exit code."""
    started = time.monotonic()
    if not REAL_DATA.is_dir():
        print(ABSENT, file=sys.stderr)
        return 2
    shutil.rmtree(HOME, ignore_errors=True)
    for name in [name for name in os.environ if name.startswith("GPU_NET_")]:
        del os.environ[name]
    os.environ["GPU_NET_HOME"] = str(HOME)
    home, console = Home.from_environment(), Console(soft_wrap=True)
    if not _land(console):
        return 1
    landed = time.monotonic()
    console.print(f"\nbuild, gate, publish (landed in {landed - started:.0f} s)")
    finished = subprocess.run([sys.executable, "-m", "warehouse", "run"], cwd=PROJECT_ROOT, check=False)
    if finished.returncode:
        console.print(f"`python -m warehouse run` left with {finished.returncode}; nothing is printed of what was not published")
        return finished.returncode
    console.print()
    show(home.published_database, console, days=None)
    agree = _print_figures(console, home)
    console.print(f"gate: {golden.verdict_of(home)}; total time {time.monotonic() - started:.0f} s")
    return 0 if agree else 1


def _land(console: Console) -> bool:
    """Land every system; what the collectors note on stderr goes to a log. False where one did not land whole."""
    NOTES.parent.mkdir(parents=True, exist_ok=True)
    with NOTES.open("w") as notes:
        for system in systems(REAL_DATA):
            console.print(f"{system.name:<36}", end="", highlight=False)
            sys.stdout.flush()
            with redirect_stderr(notes):
                print(f"== {system.name}", file=sys.stderr)
                code = system.land(REAL_DATA)
            if code:
                console.print(f"{system.name} did not land whole: {NOTES.relative_to(PROJECT_ROOT)} says why")
                return False
    console.print(f"what the collectors had to remark: {NOTES.relative_to(PROJECT_ROOT)}")
    return True


def _print_figures(console: Console, home: Home) -> bool:
    """The golden figures in a table; whether all of them agree."""
    table = Table(title="Golden figures", title_justify="left", pad_edge=False)
    for column in ("system", "figure", "unit"):
        table.add_column(column)
    for column in ("expected", "measured", "ok"):
        table.add_column(column, justify="right")
    measured = golden.measure(home)
    agreeing = 0
    for figure in golden.GOLDEN:
        value = measured[figure.name]
        agrees = figure.agrees(value)
        agreeing += agrees
        table.add_row(
            *(figure.system, figure.what, figure.unit, figure.show(figure.expected), figure.show(value)),
            "ok" if agrees else "OFF",
            style=None if agrees else "bold red",
        )
    console.print(table)
    console.print(f"{agreeing} of {len(golden.GOLDEN)} figures agree")
    return agreeing == len(golden.GOLDEN)


if __name__ == "__main__":
    sys.exit(main())
