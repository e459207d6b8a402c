"""Plans that several tests look at; making one takes a moment."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

import pytest

from collectors.simulate.plan import Plan
from collectors.simulate.world import Parameters, make_plan

UNTIL_AT = datetime(2026, 11, 5)


@lru_cache
def plan_of(gpus: int, hours: int, seed: int) -> Plan:
    return make_plan(Parameters(gpus, hours, seed, UNTIL_AT))


@pytest.fixture(scope="session", params=[(8, 24, 1), (30, 72, 2), (60, 120, 7), (100, 48, 3)], ids=str)
def plan(request: pytest.FixtureRequest) -> Plan:
    return plan_of(*request.param)
