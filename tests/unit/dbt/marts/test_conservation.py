"""`audit_gpu_hours_conserved`: the promise holds to the microsecond, or the day says so."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.dbt.harness import Harness, Row
from tests.unit.dbt.marts.inputs import HOUR_US, MIDNIGHT, day, give, ledger_row


def device_hour(gpu_id: str = "gpu-1", inventory_us: int = HOUR_US) -> Row:
    return {
        "hour_start_at": MIDNIGHT,
        "usage_date": day(0),
        "cluster": "c",
        "gpu_id": gpu_id,
        "inventory_us": inventory_us,
    }


def audit(harness: Harness, devices: list[Row], ledger: list[Row]) -> dict[str, Any]:
    give(harness, int_device_hours=devices, fct_gpu_ledger_hourly=ledger)
    (row,) = harness.run("audit_gpu_hours_conserved")
    return row


def test_states_that_add_up_hold(harness: Harness) -> None:
    row = audit(harness, [device_hour()], [ledger_row("productive", 20), ledger_row("unallocated", 40)])
    assert (row["promised"], row["measured"], row["difference"], row["holds"]) == (HOUR_US, HOUR_US, 0, True)


def test_a_missing_microsecond_does_not_hold(harness: Harness) -> None:
    row = audit(harness, [device_hour()], [ledger_row("productive", 60, gpu_microseconds=HOUR_US - 1)])
    assert (row["difference"], row["holds"]) == (-1, False)


def test_two_errors_that_cancel_do_not_hold(harness: Harness) -> None:
    ledger = [
        ledger_row("productive", 60, gpu_microseconds=HOUR_US - 1),
        ledger_row("productive", 60, gpu_microseconds=HOUR_US + 1, gpu_id="gpu-2", slot_id="gpu-2"),
    ]
    row = audit(harness, [device_hour(), device_hour("gpu-2")], ledger)
    assert (row["difference"], row["device_hours_off"], row["holds"]) == (0, 2, False)


def test_a_negative_state_that_is_made_up_elsewhere_does_not_hold(harness: Harness) -> None:
    """Case A10: idle goes negative; a clamp would hide it."""
    row = audit(harness, [device_hour()], [ledger_row("idle_compute", -10), ledger_row("productive", 70)])
    assert (row["difference"], row["negative_row_count"], row["holds"]) == (0, 1, False)


@pytest.mark.parametrize(
    ("devices", "ledger"),
    [([device_hour()], []), ([], [ledger_row("productive", 60)])],
    ids=["capacity without ledger", "ledger without capacity"],
)
def test_a_device_hour_on_one_side_only_does_not_hold(harness: Harness, devices: list[Row], ledger: list[Row]) -> None:
    assert audit(harness, devices, ledger)["holds"] is False
