"""One harness per test."""

from __future__ import annotations

import pytest

from tests.unit.dbt.harness import Harness


@pytest.fixture
def harness() -> Harness:
    return Harness()
