"""ServeGen's client traces (Alibaba, 2025) as usage of an inference service: how many requests a client sent per 10 minutes.

A line is `seconds from start, mean requests per second in the window, CV, arrival family, two parameters`, without a header.
A window without arrivals is `600,0,0,,0,0`. Requests are the rate times the window, rounded to whole ones; the trace tells
neither tokens nor time of day, so that it begins at `BEGIN`.
"""

from __future__ import annotations

import csv
from datetime import datetime, timedelta
from pathlib import Path

from collectors.parsed import Parsed

SOURCE = "servegen"
BEGIN = datetime(2025, 1, 6)
WINDOW = timedelta(seconds=600)


def to_rows(path: Path, cluster: str) -> Parsed:
    """Rows of `inference_usage`, one per window of a trace file; the client is the server's name."""
    parsed = Parsed()
    model, client = path.name.removesuffix("-trace.csv").split("_chunk-")
    with path.open(newline="") as text:
        for line, (start, rate, *_) in enumerate(csv.reader(text), start=1):
            parsed.add(
                "inference_usage",
                {
                    "cluster": cluster,
                    "server": f"{model}-{client}",
                    "workload": f"{model}-{client}",
                    "model": model,
                    "interval_start_at": BEGIN + timedelta(seconds=int(start)),
                    "interval_ms": WINDOW // timedelta(milliseconds=1),
                    "request_count": round(float(rate) * WINDOW.total_seconds()),
                    "line_number": line,
                },
            )
    return parsed
