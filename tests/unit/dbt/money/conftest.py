from __future__ import annotations

import pytest

from tests.unit.dbt.money.world import World


@pytest.fixture
def world() -> World:
    return World()
