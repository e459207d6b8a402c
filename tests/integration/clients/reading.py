"""What every reader in Python does: ask until a file says stop, and count. Runs in the client's environment, without ours."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

#: one number in three places, written anew by each publication: two of them in one answer are a mixture
QUERIES = (
    "select cast(split_part(build_id, '-', 2) as integer) as low, cast(split_part(build_id, '-', 2) as integer) as high "
    "from publication",
    "select cast(min(energy_kwh) as integer) as low, cast(max(energy_kwh) as integer) as high from fct_gpu_ledger_hourly",
    "select cast(min(energy_kwh) as integer) as low, cast(max(energy_kwh) as integer) as high from mart_gpu_net_daily",
)
#: a reader without a pause would measure who gets the processor
PAUSE_SECONDS = 0.02


def read_until_stopped(version: str, ask: Callable[[str], list[int]]) -> None:
    """Call `ask` with the database's path, which opens, asks and closes; print what was seen as JSON."""
    database, stop = sys.argv[1], Path(sys.argv[2])
    reads, mixed, errors, seen = 0, 0, [], set()
    while not stop.exists():
        try:
            numbers = {int(number) for number in ask(database)}
            reads += 1
            mixed += len(numbers) != 1
            seen |= numbers
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")
        Path(f"{stop}.{Path(sys.argv[0]).stem}.{version}").touch()
        time.sleep(PAUSE_SECONDS)
    record = {"version": version, "reads": reads, "mixed": mixed, "errors": len(errors), "seen": len(seen)}
    print(json.dumps({**record, "first_error": errors[0][:500] if errors else None}))
