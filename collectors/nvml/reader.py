"""The process that calls NVML. It answers the agent line by line; a call that never returns ends with the process.

    python -m collectors.nvml.reader [--only INDEX] [--skip INDEX,…] [--agent PID]

One JSON object a line, from stdin: `{"at": …, "gpus": [index, …], "describe": bool, "processes": bool}`; to stdout:
`{"count": n, "driver": …}`, an `{"opened": index, …}` for each GPU, `{"ready": true}`, then for each request an answer
`{"at": …, "index": …, "status": …}` per GPU, each written as soon as it is there: the first one that is not tells the
agent which GPU hangs. `{"failed": …}` is the last line where no driver answers.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from collectors.nvml.device import Card
from collectors.nvml.driver import DeviceLostError, DriverGoneError, Missing, driver_version, query, session

_PR_SET_PDEATHSIG = 1

Send = Callable[[dict[str, Any]], None]


def main(arguments: list[str]) -> int:
    """Serve until stdin ends."""
    # the agent ends its readers; a terminal's Ctrl-C is the agent's to hear
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    options = dict(zip(arguments[::2], arguments[1::2], strict=False))
    _die_with_the_agent(int(options.get("--agent", os.getppid())))
    only = int(options["--only"]) if "--only" in options else None
    skip = {int(index) for index in options.get("--skip", "").split(",") if index}
    send = answers()
    try:
        with session():
            serve(only, skip, send)
    except DriverGoneError as error:
        send({"failed": str(error)})
        return 1
    except BrokenPipeError:  # the agent has gone
        pass
    return 0


def serve(only: int | None, skip: set[int], send: Send) -> None:
    """Open the GPUs, then answer request by request."""
    count = query("nvmlDeviceGetCount")
    if isinstance(count, Missing):
        raise DriverGoneError(f"the driver does not tell its devices ({count.reason}); run nvidia-smi and read its message")
    driver = driver_version()
    send({"count": count, "driver": driver})
    cards: dict[int, Card] = {}
    for index in range(count) if only is None else [only]:
        if index in skip:
            continue
        try:
            cards[index] = Card(index, driver)
            send({"opened": index, "uuid": cards[index].uuid})
        except DeviceLostError as error:
            send({"opened": index, "lost": str(error)})
    if only is not None and not cards:
        return  # nothing to read: a new process looks again later
    send({"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        for index in request["gpus"]:
            answer = read(index, cards, driver, request)
            send({"at": request["at"], "index": index, **answer})


def read(index: int, cards: dict[int, Card], driver: str | None, request: dict[str, Any]) -> dict[str, Any]:
    """One GPU's answer; one that could not be opened is tried again."""
    try:
        if index not in cards:
            cards[index] = Card(index, driver)
        return cards[index].read(describe=request["describe"], with_processes=request["processes"])
    except DeviceLostError as error:
        return {"status": "lost", "detail": str(error), "xids": []}


def answers() -> Send:
    """What writes a line to the agent; what the library prints goes to stderr from now on, not between the answers."""
    stream = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def send(message: dict[str, Any]) -> None:
        stream.write(json.dumps(message, separators=(",", ":")) + "\n")
        stream.flush()

    return send


def _die_with_the_agent(agent: int) -> None:
    """A reader stuck in a call would not notice that its agent was killed."""
    # not on a system other than Linux, where the end of stdin has to do
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != agent:  # it was killed before this could be asked for
        sys.exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
