"""Public price lists as rate cards: Lambda (as SkyPilot lists it), OpenCost's rate cards, Oracle's list, Google's SKUs.

Each list is a provider of its own in a cluster of its own, so that none of them prices another capture's cards. Lists of
whole instances give the price of one of their GPUs.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from collectors.parsed import Parsed

SOURCE = "price-lists"
CLUSTER = "price-lists"
VALID_FROM = "2022-01-01T00:00:00Z"


def to_rows(real_data: Path) -> Parsed:
    """Rows of `rate_cards` of all lists in the folder of captures."""
    parsed = Parsed()
    lists = (
        ("lambda", _lambda(real_data / "skypilot-lambda-2022" / "lambda.csv")),
        ("opencost", _opencost(sorted((real_data / "opencost").glob("pricing_schema*.csv")))),
        ("oracle-list", _oracle(real_data / "opencost" / "oci-prices-usd.json")),
        ("google-list", _google(real_data / "opencost" / "gcp-skus.json")),
    )
    for provider, prices in lists:
        for model, price in prices:
            parsed.add(
                "rate_cards",
                {
                    "gpu_model": model,
                    "provider": provider,
                    "cluster": CLUSTER,
                    "currency": "USD",
                    "cost_per_gpu_hour": str(price),
                    "valid_from": VALID_FROM,
                },
            )
    return parsed


def _lambda(path: Path) -> Iterator[tuple[str, Decimal]]:
    """The price of an instance over its GPUs, by instance type: the same card costs differently in different ones."""
    with path.open(newline="") as text:
        for row in csv.DictReader(text):
            yield row["InstanceType"], Decimal(row["Price"]) / int(row["AcceleratorCount"])


def _opencost(paths: list[Path]) -> Iterator[tuple[str, Decimal]]:
    for path in paths:
        with path.open(newline="") as text:
            for row in csv.DictReader(text):
                if row["AssetClass"] == "gpu":
                    yield row["InstanceID"], Decimal(row["MarketPriceHourly"])


def _oracle(path: Path) -> Iterator[tuple[str, Decimal]]:
    for item in json.loads(path.read_text(), parse_float=Decimal)["items"]:
        if item["metricName"] == "GPU Per Hour":
            prices: list[dict[str, Any]] = item["currencyCodeLocalizations"][0]["prices"]
            yield f"{item['displayName']} ({item['partNumber']})", Decimal(prices[0]["value"])


def _google(path: Path) -> Iterator[tuple[str, Decimal]]:
    """Units and nanos of the first tier; per GPU and hour."""
    for sku in json.loads(path.read_text())["skus"]:
        if sku["category"]["resourceGroup"] == "GPU":
            price = sku["pricingInfo"][0]["pricingExpression"]["tieredRates"][0]["unitPrice"]
            yield f"{sku['description']} ({sku['skuId']})", Decimal(price["units"]) + Decimal(price["nanos"]) / 10**9
