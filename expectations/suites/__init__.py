"""One module per published table, named like it, with a function `expectations(table)`: what readers may rely on there.

A published table without a module holds publication, and so does a module whose table is not in the build. The audits, which all
have one shape, share `audits`.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

from expectations.rules import Table, keys_in_dimensions

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation

SHARED = {"audit_": "audits"}


def required_tables() -> list[str]:
    """The tables that every build must have: those with a module of their own name."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name not in SHARED.values())


def suite_of(table: Table) -> list[Expectation] | None:
    """What is expected of a table; None where nobody has said."""
    shared = next((module for prefix, module in SHARED.items() if table.name.startswith(prefix)), None)
    name = table.name if table.name in required_tables() else shared
    if name is None:
        return None
    expectations: list[Expectation] = importlib.import_module(f"{__name__}.{name}").expectations(table)
    if not expectations:
        return expectations
    return [*expectations, *keys_in_dimensions(table, (str((rule.meta or {})["check_id"]) for rule in expectations))]
