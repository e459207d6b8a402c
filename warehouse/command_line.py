"""What the command lines share: commands that are imported when they are asked for, and instants as arguments."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import click

from warehouse.landing.values import parse_instant


class LazyCommands(click.Group):
    """A group whose commands live in modules that are imported when a command is asked for.

    An agent on a GPU host must load no more than it needs, and dbt, Great Expectations and Airflow take seconds.
    """

    def __init__(self, *args: Any, places: Mapping[str, str], **options: Any) -> None:
        """`places` maps a command's name to `module:attribute`."""
        super().__init__(*args, **options)
        self._places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = self._places.get(cmd_name)
        if place is None:
            return None
        module, name = place.split(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command


class Instant(click.ParamType[datetime]):
    """ISO 8601 with offset, or a date (UTC); becomes a naive UTC datetime."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            return parse_instant(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


INSTANT = Instant()
