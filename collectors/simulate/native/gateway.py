"""What stands between people and services, and what they pay: LiteLLM's spend log, FOCUS bills."""

from __future__ import annotations

import csv
import io
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from collectors.simulate.plan import Plan, Run, Service
from collectors.simulate.serving_plan import TEAM
from collectors.simulate.usage import requests_of, serving_runs

#: the service that is reached through the gateway
ROUTED = "chat"
#: columns that a delivery is known by here, and that no bill has
NOT_FOCUS = ("delivery_id", "delivered_at")


def spend_log(plan: Plan, first: int, last: int) -> str:
    """A line for each request of the routed service."""
    lines = []
    for run, service in serving_runs(plan):
        start, end = max(first, run.start), min(last, run.until(plan.window))
        if service.name == ROUTED and start < end:
            lines += [json.dumps(entry) for entry in _requests(plan, run, service, start, end)]
    return "".join(f"{line}\n" for line in lines)


def _requests(plan: Plan, run: Run, service: Service, first: int, last: int) -> Iterator[dict[str, Any]]:
    for minute, count in zip(range(first, last), requests_of(plan, run, service, first, last), strict=True):
        failed = int(count) // 100
        for number in range(int(count)):
            started = plan.window.at(minute) + timedelta(seconds=60 * number / int(count))
            ended = started + timedelta(seconds=service.seconds * (0.5 + number / int(count)))
            usage = {"prompt_tokens_details": {"cached_tokens": service.cached_tokens}}
            yield {
                "request_id": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{run.job_id}/{minute}/{number}")),
                "call_type": "acompletion",
                "startTime": _time(started),
                "endTime": _time(ended),
                "completionStartTime": _time(started + timedelta(milliseconds=310)),
                "model": service.model,
                "prompt_tokens": service.prompt_tokens,
                "completion_tokens": service.output_tokens,
                "total_tokens": service.prompt_tokens + service.output_tokens,
                "status": "failure" if number < failed else "success",
                "metadata": {
                    "user_api_key_team_alias": TEAM[service.name],
                    "spend_logs_metadata": {"application": service.name, "workload": service.name},
                    "usage_object": usage,
                },
            }


def _time(instant: datetime) -> str:
    return f"{instant.isoformat(timespec='milliseconds')}Z"


def focus(lines: Iterable[Mapping[str, Any]]) -> str:
    """Lines as the provider would deliver them: a FOCUS CSV, in which what is missing is the text NULL."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names: list[str] = []
    for line in lines:
        if not names:
            names = [name for name in line if name not in NOT_FOCUS]
            writer.writerow("".join(word.capitalize() for word in name.split("_")) for name in names)
        writer.writerow("NULL" if line[name] is None else line[name] for name in names)
    return text.getvalue()
