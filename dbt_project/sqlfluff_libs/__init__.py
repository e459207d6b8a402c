"""What sqlfluff's jinja templater lacks of dbt's context, so that linting starts neither dbt nor a database.

A dispatched macro renders as a call of that name: enough for its layout to be judged.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

execute = False
flags = SimpleNamespace(FULL_REFRESH=False)
graph = SimpleNamespace(nodes={}, sources={})


def _dispatch(name: str, package: str | None = None) -> Callable[..., str]:
    if name.endswith("_rows"):
        return lambda *arguments: f"select * from {name}"
    return lambda *arguments: f"{name}({', '.join(str(argument) for argument in arguments)})"


class _Types:
    """`dbt.type_string()` and its like."""

    def __getattr__(self, name: str) -> Callable[[], str]:
        return lambda: name.removeprefix("type_")


adapter = SimpleNamespace(dispatch=_dispatch)
dbt = _Types()


def env_var(name: str, default: str = "") -> str:
    return default
