"""`python -m warehouse list-prices PRICE_LIST.json --model OURS=LISTED`: list prices to set our own costs beside.

Reads a price list in the shape of LiteLLM's `model_prices_and_context_window.json` (USD per token) and adds a line per model to
`config/list_prices.csv`, which the next build lands. Which of the listed models ours is compared with is a person's judgement,
so it is named by hand; nothing is compared that nobody named.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import click

from warehouse.atomic import replaced
from warehouse.command_line import INSTANT
from warehouse.home import Home
from warehouse.init.files import ConfigError, Draft, add_drafts, new_text, read_config_file
from warehouse.init.land import path_of
from warehouse.landing.shape import TABLES

TABLE = TABLES["list_prices"]
INTRODUCTION = """List prices of models, to set our own cost beside. Prices are per million tokens.
model is the name our servers report; listed_as the same or a comparable model in the price list."""

#: our column → the price list's keys (the first that is there), and per how many units ours is
PRICES: Mapping[str, tuple[tuple[str, ...], int]] = {
    "input_cost_per_million_tokens": (("input_cost_per_token",), 1_000_000),
    "cached_input_cost_per_million_tokens": (("cache_read_input_token_cost",), 1_000_000),
    "output_cost_per_million_tokens": (("output_cost_per_token",), 1_000_000),
    "cost_per_thousand_requests": (("input_cost_per_request", "output_cost_per_image", "input_cost_per_image"), 1_000),
}


class PriceListError(Exception):
    """The price list cannot be read, or lacks a model; the message says which."""


def read_price_list(path: Path) -> Mapping[str, Any]:
    """The listed models by name. Prices keep their digits: 1.25e-07 per token is 0.125 per million."""
    try:
        listed = json.loads(path.read_bytes(), parse_float=Decimal)
    except OSError as error:
        raise PriceListError(f"{path} cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise PriceListError(f"{path} is no JSON: {error}") from None
    if not isinstance(listed, dict) or not all(isinstance(entry, dict) for entry in listed.values()):
        raise PriceListError(f"{path} is no price list: an object of models is expected, as LiteLLM publishes it")
    return listed


def drafts(listed: Mapping[str, Any], names: Iterable[tuple[str, str]], valid_from: datetime) -> Iterator[Draft]:
    """A line for each pair of our model and a listed one; raises PriceListError where that is not there or has no price."""
    for ours, name in names:
        entry = listed.get(name)
        if entry is None:
            near = sorted(other for other in listed if name.lower() in other.lower())[:5]
            hint = f"; did you mean {', '.join(near)}?" if near else ""
            raise PriceListError(f"the price list has no model {name}{hint}")
        prices = {column: _price(entry, keys, units) for column, (keys, units) in PRICES.items()}
        if not any(price is not None for price in prices.values()):
            raise PriceListError(f"the price list has no price of {name} per token, request or image")
        yield Draft(
            {
                "model": ours,
                "listed_as": name,
                "provider": str(entry.get("litellm_provider") or ""),
                "currency": "USD",
                "valid_from": f"{valid_from:%Y-%m-%dT%H:%M:%SZ}",
            }
            | {column: f"{price:f}" for column, price in prices.items() if price is not None}
        )


def _price(entry: Mapping[str, Any], keys: Iterable[str], units: int) -> Decimal | None:
    for key in keys:
        price = entry.get(key)
        if isinstance(price, int | Decimal) and not isinstance(price, bool):
            return (Decimal(price) * units).normalize()
    return None


def add_list_prices(home: Home, lines: list[Draft]) -> Path:
    """Add the lines to `config/list_prices.csv`, which is made where it is not there."""
    home.create()
    path = path_of(home, TABLE.name)
    file = read_config_file(path, [column.name for column in TABLE.columns if column.required])
    if file is None:
        with replaced(path) as temporary:
            temporary.write_text(new_text(INTRODUCTION, [column.name for column in TABLE.columns], lines))
    else:
        add_drafts(file, lines)
    return path


@click.command("list-prices")
@click.argument("price_list", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--model", "names", multiple=True, required=True, help="OURS=LISTED: our model, and the listed one beside it.")
@click.option("--since", type=INSTANT, required=True, help="From when the price holds (UTC).")
def list_prices_command(price_list: Path, names: tuple[str, ...], since: datetime) -> None:
    """Take list prices of models out of a LiteLLM price list into config/list_prices.csv."""
    pairs = [(ours.strip(), (listed or ours).strip()) for ours, _, listed in (name.partition("=") for name in names)]
    try:
        lines = list(drafts(read_price_list(price_list), pairs, since))
        path = add_list_prices(Home.from_environment(), lines)
    except (PriceListError, ConfigError, OSError) as error:
        click.echo(f"list-prices: {error}", err=True)
        sys.exit(1)
    click.echo(f"{path}: {len(lines)} list prices added, in force from the next build on")
