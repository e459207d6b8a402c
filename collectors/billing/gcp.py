"""Google Cloud's detailed usage cost export from BigQuery: JSON lines, Parquet, or CSV with nested names flattened.

Sources: Google's schema of the detailed export and the FinOps Foundation's focus_converters
(`conversion_rules_export/csv/gcp.csv`). Nested names are written with a dot (`sku.description`); flattened tables often
write `sku_description`, which is the same here.

Quirks, each handled where its column is filled:

- What is paid is `cost` plus the (negative) `credits` of the line. Credits that are a price (committed use, sustained
  use, negotiated discounts, free tier) are part of the charge. A promotion is a voucher, not a price: it becomes a
  line of its own, a Credit, so that a GPU under a start-up programme does not look free.
- `invoice.month` is a month of Pacific time.
- An instance's `resource.global_name` holds its number, a node knows its name: `projects/P/zones/Z/instances/NAME` is
  put together from project, zone and `resource.name`.
- Google does not amortise: a commitment's fee stays an effective cost of its own, usage it covers nets to 0. In the
  newer model of spend-based commitments usage has its discounted price, and a `FEE_UTILIZATION_OFFSET` takes back of
  the fee what was used: what is left of the fee is the unused part.
- A SKU's id is opaque, so `resource_type` holds its description ("Nvidia Tesla A100 GPU running in …").
- Exported numbers may be texts or doubles; both keep their digits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from collectors.billing.mapping import Field, Format, Line, Row, SecondCharge
from collectors.billing.spelling import as_text, day_of, instant, json_object, month_of, resource_id, total, utc_text

_PACIFIC = ZoneInfo("America/Los_Angeles")
_GLOBAL_NAME = re.compile(r"//compute\.googleapis\.com/projects/[^/]+/zones/([^/]+)/instances/([^/]+)")
_COMMITTED = re.compile("COMMITTED_USAGE", re.IGNORECASE)
#: corrections that change what usage cost, as against what Google gives or takes besides
_OF_USAGE = ("USAGE_CORRECTION", "PRICE_CORRECTION", "METERING_CORRECTION")


def _credits(row: Row) -> list[Mapping[str, Any]]:
    """The line's credits; ValueError where they are no list of amounts, since money would be lost."""
    text = row.get("credits")
    if text is None:
        return []
    try:
        found = json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError):
        raise ValueError("credits are no JSON list; export the table as JSON lines") from None
    if isinstance(found, dict):
        found = [found]
    if not isinstance(found, list) or not all(isinstance(item, dict) and "amount" in item for item in found):
        raise ValueError("credits are no list of amounts; export the table as JSON lines")
    return found


def _is_promotion(credit: Mapping[str, Any]) -> bool:
    return str(credit.get("type", "")).upper() in ("PROMOTION", "FREE_TRIAL")


def _is_unused_commitment(row: Row) -> bool:
    return any(str(credit.get("type", "")).upper() == "FEE_UTILIZATION_OFFSET" for credit in _credits(row))


def _cost(row: Row) -> str | None:
    if "cost" not in row:
        return None
    return total(row["cost"], row.get("credits_amount"), *(as_text(c["amount"]) for c in _credits(row) if not _is_promotion(c)))


def _promotion(row: Row) -> str | None:
    amounts = [as_text(credit["amount"]) for credit in _credits(row) if _is_promotion(credit)]
    return total(*amounts) if amounts else None


def _credit(charge: Line, given: str) -> Line:
    nothing = ("list_cost", "contracted_cost", "consumed_quantity", "pricing_quantity", "pricing_category", "charge_class")
    return {
        **charge,
        **dict.fromkeys((*nothing, "commitment_discount_id", "commitment_discount_status")),
        "billed_cost": given,
        "effective_cost": given,
        "charge_category": "Credit",
        "charge_frequency": "One-Time",
        "charge_description": f"promotion on: {charge['charge_description']}",
    }


def _is_commitment_fee(row: Row) -> bool:
    return row.get("sku.description", "").lower().startswith("commitment")


def _adjustment(row: Row) -> str:
    return row.get("adjustment_info.type", "").upper()


def _category(row: Row) -> str | None:
    kind = row.get("cost_type", "regular").lower().replace("_", " ")
    if kind == "tax":
        return "Tax"
    if kind == "rounding error":
        return "Adjustment"
    if kind == "adjustment":
        return "Usage" if _adjustment(row) in _OF_USAGE else "Adjustment"
    return "Purchase" if _is_commitment_fee(row) and not _is_unused_commitment(row) else "Usage"


def _class(row: Row) -> str | None:
    return "Correction" if row.get("cost_type", "").lower() == "adjustment" or _adjustment(row) else None


def _frequency(row: Row) -> str | None:
    return "Usage-Based" if _category(row) == "Usage" else None


def _commitment(row: Row) -> str | None:
    """The commitment that paid for the line: of its fee the subscription, of usage the credit."""
    if _is_commitment_fee(row) or _is_unused_commitment(row):
        return row.get("subscription.instance_id")
    named = (credit.get("id") or credit.get("name") for credit in _credits(row) if _COMMITTED.search(str(credit.get("type"))))
    return next((str(name) for name in named if name), None)


def _status(row: Row) -> str | None:
    if _is_unused_commitment(row):
        return "Unused"
    return "Used" if not _is_commitment_fee(row) and _commitment(row) else None


def _pricing_category(row: Row) -> str | None:
    if _is_commitment_fee(row) or _is_unused_commitment(row) or _commitment(row):
        return "Committed"
    sku = row.get("sku.description", "").lower()
    return "Dynamic" if "spot" in sku.split() or "preemptible" in sku else "Standard"


def _resource_id(row: Row) -> str | None:
    name, full = row.get("resource.name"), row.get("resource.global_name")
    if full is None:
        return name
    match = _GLOBAL_NAME.fullmatch(full)
    if match is None or "project.id" not in row:
        return resource_id(full)
    return f"projects/{row['project.id']}/zones/{match[1]}/instances/{(name or match[2]).rsplit('/', 1)[-1]}"


def _resource_alias(row: Row) -> str | None:
    """The number that Google gives an instance, by which nodes may know themselves as well."""
    match = _GLOBAL_NAME.fullmatch(row.get("resource.global_name", ""))
    return match[2] if match and match[2].isdigit() else None


def _period(of_month: int) -> Callable[[Row], str | None]:
    """The start (0) or end (1) of the invoice's month, else of the month of the usage, in Pacific time."""

    def derive(row: Row) -> str | None:
        if month := row.get("invoice.month"):
            digits = month.replace("-", "")
            if not re.fullmatch(r"\d{6}", digits):
                raise ValueError(f"{month!r} is no invoice month; 202311 is one")
            first = _first_day(int(digits[:4]), int(digits[4:]), month)
        elif "usage_start_time" in row:
            first = day_of(row["usage_start_time"])
        else:
            return None
        bound = month_of(first)[of_month]
        return utc_text(datetime(bound.year, bound.month, 1, tzinfo=_PACIFIC).astimezone(UTC))

    return derive


def _first_day(year: int, month: int, text: str) -> date:
    try:
        return date(year, month, 1)
    except ValueError:
        raise ValueError(f"{text!r} is no invoice month; 202311 is one") from None


def _tags(row: Row) -> str | None:
    """Labels of the resource and its project, and tags; the nearest to the resource counts."""
    found: dict[str, Any] = {}
    for name in ("project.labels", "tags", "labels"):
        found |= json_object(row.get(name)) or {}
    return json.dumps(found, default=str, ensure_ascii=False) if found else None


FIELDS = (
    Field(
        "billed_cost",
        "cost credits credits.amount",
        derive=_cost,
        how="cost + credits that are a price; a promotion is a line of its own",
    ),
    Field(
        "effective_cost",
        "cost credits credits.amount",
        derive=_cost,
        how="cost + credits that are a price: Google does not amortise",
    ),
    Field("list_cost", "cost_at_list"),
    Field("contracted_cost", "cost_at_effective_price_default"),
    Field("billing_currency", "currency", spell=str.upper),
    Field(
        "billing_period_start",
        "invoice.month usage_start_time",
        derive=_period(0),
        how="first instant of the invoice month (of the usage, without one), Pacific time",
    ),
    Field(
        "billing_period_end",
        "invoice.month usage_start_time",
        derive=_period(1),
        how="first instant of the month after, Pacific time",
    ),
    Field("charge_period_start", "usage_start_time", spell=instant),
    Field("charge_period_end", "usage_end_time", spell=instant),
    Field(
        "charge_category",
        "cost_type sku.description adjustment_info.type credits",
        derive=_category,
        how="Tax, Adjustment (rounding too), Purchase of a commitment's fee, else Usage",
    ),
    Field("charge_class", "cost_type adjustment_info.type", derive=_class, how="Correction of an adjustment"),
    Field("charge_description", "sku.description"),
    Field(
        "charge_frequency",
        "cost_type sku.description adjustment_info.type credits",
        derive=lambda row: "Usage-Based" if _category(row) == "Usage" else None,
        how="Usage-Based of usage",
    ),
    Field(
        "commitment_discount_id",
        "credits sku.description subscription.instance_id",
        derive=_commitment,
        how="of a fee its subscription, of usage the commitment in its credits",
    ),
    Field(
        "commitment_discount_status",
        "credits sku.description subscription.instance_id",
        derive=_status,
        how="Unused of what of a fee was not taken back, Used of usage with such a credit",
    ),
    Field("consumed_quantity", "usage.amount"),
    Field("consumed_unit", "usage.unit"),
    Field(
        "pricing_category",
        "credits sku.description subscription.instance_id",
        derive=_pricing_category,
        how="Committed, Dynamic (spot, preemptible) or Standard",
    ),
    Field("pricing_quantity", "usage.amount_in_pricing_units"),
    Field("pricing_unit", "usage.pricing_unit"),
    Field("provider_name", derive=lambda row: "Google Cloud", how="Google Cloud"),
    Field("billing_account_id", "billing_account_id"),
    Field("sub_account_id", "project.id"),
    Field(
        "resource_id",
        "resource.name resource.global_name project.id",
        derive=_resource_id,
        how="of an instance projects/…/zones/…/instances/NAME, as its node knows itself",
    ),
    Field("resource_alias", "resource.global_name", derive=_resource_alias, how="the number of an instance"),
    Field("resource_type", "sku.description"),
    Field("region_id", "location.region location.location"),
    Field("availability_zone", "location.zone"),
    Field("service_name", "service.description"),
    Field("sku_id", "sku.id"),
    Field("tags", "labels tags project.labels", derive=_tags, how="labels, tags and the project's labels together"),
)

GCP = Format(
    name="gcp",
    title="Google Cloud billing export",
    remedy="export the detailed usage cost table of BigQuery as JSON lines",
    fields=FIELDS,
    needs=("cost", "currency", "usage_start_time", "usage_end_time", "billing_account_id"),
    second=SecondCharge(
        Field("effective_cost", "credits", derive=_promotion, how="the sum of promotions and free trials, a Credit"), _credit
    ),
)
