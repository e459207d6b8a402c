"""Small FOCUS bills written by hand."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

LINE: Mapping[str, str] = {
    "BilledCost": "1.5",
    "EffectiveCost": "1.25",
    "BillingCurrency": "USD",
    "BillingPeriodStart": "2026-10-01 00:00:00",
    "BillingPeriodEnd": "2026-11-01 00:00:00",
    "ChargePeriodStart": "2026-10-31 22:00:00",
    "ChargePeriodEnd": "2026-10-31 23:00:00",
    "ChargeCategory": "Usage",
    "ProviderName": "AWS",
    "BillingAccountId": "123456789012",
    "ResourceId": "arn:aws:ec2:us-west-2:1:instance/i-0abc",
}


def bill(*changes: Mapping[str, str], leave_out: Sequence[str] = ()) -> str:
    """A bill with one line per mapping, each `LINE` with those cells changed or added; a cell is empty if not given."""
    lines = [{**LINE, **change} for change in changes]
    names = [name for name in dict.fromkeys(name for line in lines for name in line) if name not in leave_out]
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval="", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def save(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path
