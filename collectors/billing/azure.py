"""Azure cost exports: Enterprise Agreement (EA), Microsoft Customer Agreement (MCA), pay-as-you-go; actual and amortised.

Sources: the FinOps Foundation's focus_converters (`conversion_rules_export/csv/azure.csv`), Microsoft's cost details
schema and finops-toolkit. One table reads all of them, since a later generation renames columns and changes their case
(`Cost`/`CostInBillingCurrency`, `InstanceId`/`ResourceId`, `Product`/`ProductName`, `PreTaxCost` of pay-as-you-go).

Quirks, each handled where its column is filled:

- An *actual* export bills a reservation as a `Purchase` and the usage it covers as 0; an *amortised* export has no
  purchase and gives the usage its share. Line by line both agree: a purchase of a commitment has no effective cost,
  and usage that a commitment covers was billed with the purchase, so that it has no billed cost. Which of the two a
  file is no column tells; the two together would hold all other usage twice.
- `UnusedReservation` and `UnusedSavingsPlan` (amortised) are the unused part of a commitment.
- A day is written month/day/year, and the end of a billing period is its last day, not the one after. Exports of a
  pay-as-you-go subscription have no billing period (the calendar month) and no account (the subscription).
- `Quantity` counts blocks of `UnitOfMeasure`: 0.0004 of `10K` are 4 operations.
- A node of a scale set has no `ResourceId` of its own: `AdditionalInfo` names it, sometimes as JSON without braces.
- Cost has up to 25 digits. Headers come in other languages, with the English name in brackets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from datetime import date
from decimal import Decimal

from collectors.billing.mapping import Field, Format, Row
from collectors.billing.spelling import (
    day_after,
    json_object,
    midnight,
    month_of,
    product,
    resource_id,
    scale_set_machine,
    us_date,
)

COST = "CostInBillingCurrency Cost PreTaxCost ExtendedCost"
DATE = "Date UsageDateTime UsageDate"
ACCOUNT, SUBSCRIPTION = "BillingAccountId", "SubscriptionId SubscriptionGuid"
COMMITMENT = "BenefitId ReservationId"
TYPE = "ChargeType"
RESOURCE = "ResourceId InstanceId"

#: charge type → category and class of FOCUS; an export without the column (pay-as-you-go) has usage alone
CHARGE_TYPES: Mapping[str, tuple[str, str | None]] = {
    "usage": ("Usage", None),
    "purchase": ("Purchase", None),
    "refund": ("Purchase", "Correction"),
    "unusedreservation": ("Usage", None),
    "unusedsavingsplan": ("Usage", None),
    "tax": ("Tax", None),
    "credit": ("Credit", None),
    "roundingadjustment": ("Adjustment", None),
    "adjustment": ("Adjustment", None),
}
UNUSED = ("unusedreservation", "unusedsavingsplan")
PRICING_MODELS: Mapping[str, str] = {
    "ondemand": "Standard",
    "spot": "Dynamic",
    "reservation": "Committed",
    "savingsplan": "Committed",
}
FREQUENCIES: Mapping[str, str] = {"usagebased": "Usage-Based", "recurring": "Recurring", "onetime": "One-Time"}

_BLOCK = re.compile(r"(\d+(?:\.\d+)?)\s*([KMB](?![A-Za-z]))?\s*(.*)")
_FACTORS = {None: 1, "K": 1_000, "M": 1_000_000, "B": 1_000_000_000}


def unit_block(unit: str) -> tuple[Decimal, str] | None:
    """How many units a `UnitOfMeasure` is, and of what: `10K` → (10000, Units), `100 Hours` → (100, Hours), `Days` → 1."""
    match = _BLOCK.fullmatch(unit.strip())
    if match is None or not Decimal(match[1]):
        return (Decimal(1), unit.strip()) if unit.strip()[:1].isalpha() else None
    unit = match[3].strip()
    return Decimal(match[1]) * _FACTORS[match[2]], f"Units{unit}" if not unit or unit.startswith("/") else unit


def _word(row: Row, names: str) -> str:
    """A word that two generations write differently: `SavingsPlan`, `Savings Plan`."""
    return re.sub(r"[\W_]", "", row.first(*names.split()) or "").lower()


def _type(row: Row) -> str:
    return _word(row, TYPE) or "usage"


def _is_committed(row: Row) -> bool:
    return row.first(*COMMITMENT.split()) is not None or PRICING_MODELS.get(_word(row, "PricingModel")) == "Committed"


def _billed_cost(row: Row) -> str | None:
    covered = _type(row) in UNUSED or (_type(row) == "usage" and _is_committed(row))
    return "0" if covered else row.first(*COST.split())


def _effective_cost(row: Row) -> str | None:
    bought = _type(row) in ("purchase", "refund") and _is_committed(row)
    return "0" if bought else row.first(*COST.split())


def _category(row: Row) -> str | None:
    known = CHARGE_TYPES.get(_type(row))
    return known[0] if known else row.get(TYPE)


def _class(row: Row) -> str | None:
    return CHARGE_TYPES.get(_type(row), ("", None))[1]


def _status(row: Row) -> str | None:
    if _type(row) in UNUSED:
        return "Unused"
    return "Used" if _type(row) == "usage" and _is_committed(row) else None


def _day(row: Row) -> date | None:
    text = row.first(*DATE.split())
    return None if text is None else us_date(text)


def _charge_start(row: Row) -> str | None:
    day = _day(row)
    return None if day is None else midnight(day)


def _charge_end(row: Row) -> str | None:
    day = _day(row)
    return None if day is None else midnight(day_after(day))


def _period(bound: str, of_month: int) -> Callable[[Row], str | None]:
    """The start (0) or end (1) of the billing period as given, else of the month of the charge."""

    def derive(row: Row) -> str | None:
        if bound in row:
            day = us_date(row[bound])
            return midnight(day_after(day) if of_month else day)
        charged = _day(row)
        return None if charged is None else midnight(month_of(charged)[of_month])

    return derive


def _resource_id(row: Row) -> str | None:
    """The node's id; of a scale set the one instance that `AdditionalInfo` names (`aks-pool-vmss_3` is its `…/3`)."""
    found = row.first(*RESOURCE.split())
    return None if found is None else resource_id(scale_set_machine(found, str(_additional(row).get("VMName", ""))))


def _additional(row: Row) -> Mapping[str, object]:
    return json_object(row.get("AdditionalInfo")) or {}


def _resource_type(row: Row) -> str | None:
    """The size of a virtual machine, which tells its GPUs; else what Azure calls the type."""
    size = _additional(row).get("ServiceType")
    if isinstance(size, str) and size:
        return size
    return row.get("MeterName") if row.get("MeterCategory") == "Virtual Machines" else row.get("ResourceType")


def _consumed_quantity(row: Row) -> str | None:
    block = unit_block(row.get("UnitOfMeasure", ""))
    return product(row.first("Quantity", "UsageQuantity"), str(block[0])) if block else None


def _consumed_unit(row: Row) -> str | None:
    block = unit_block(row.get("UnitOfMeasure", ""))
    return block[1] if block else None


def _at_price(column: str, ready: str) -> Callable[[Row], str | None]:
    """A cost at a price per block: only where prices are in the currency of the bill (MCA has two)."""

    def derive(row: Row) -> str | None:
        if ready in row:
            return row[ready]
        billing = row.first("BillingCurrency", "BillingCurrencyCode", "Currency")
        if row.get("PricingCurrency", billing) != billing or _type(row) != "usage":
            return None
        return product(row.first("Quantity", "UsageQuantity"), row.get(column))

    return derive


def _note(columns: Collection[str]) -> str | None:
    missing = [
        text
        for name, text in (
            ("BillingPeriodStartDate", "no billing period: each charge counts in its calendar month"),
            (ACCOUNT, "no billing account: each subscription counts as one"),
        )
        if name not in columns
    ]
    return "; ".join(missing) or None


FIELDS = (
    Field(
        "billed_cost",
        f"{COST} {TYPE} {COMMITMENT} PricingModel",
        derive=_billed_cost,
        how="the cost; 0 for usage that a commitment covers, and for its unused part",
    ),
    Field(
        "effective_cost",
        f"{COST} {TYPE} {COMMITMENT} PricingModel",
        derive=_effective_cost,
        how="the cost; 0 for a commitment bought or given back",
    ),
    Field(
        "list_cost",
        "PaygCostInBillingCurrency PayGPrice Quantity UsageQuantity PricingCurrency BillingCurrency BillingCurrencyCode Currency",
        derive=_at_price("PayGPrice", "PaygCostInBillingCurrency"),
        how="the pay-as-you-go cost; else quantity x pay-as-you-go price, of usage priced in the currency of the bill",
    ),
    Field(
        "contracted_cost",
        "UnitPrice Quantity UsageQuantity PricingCurrency BillingCurrency BillingCurrencyCode Currency",
        derive=_at_price("UnitPrice", ""),
        how="quantity x unit price, of usage priced in the currency of the bill",
    ),
    Field("billing_currency", "BillingCurrency BillingCurrencyCode Currency", spell=str.upper),
    Field(
        "billing_period_start",
        f"BillingPeriodStartDate {DATE}",
        derive=_period("BillingPeriodStartDate", 0),
        how="its midnight; without it the first day of the month of the charge",
    ),
    Field(
        "billing_period_end",
        f"BillingPeriodEndDate {DATE}",
        derive=_period("BillingPeriodEndDate", 1),
        how="the midnight after it, since it is the last day; without it the first day of the next month",
    ),
    Field("charge_period_start", DATE, derive=_charge_start, how="its midnight; days are month/day/year"),
    Field("charge_period_end", DATE, derive=_charge_end, how="the midnight after it"),
    Field("charge_category", TYPE, derive=_category, how="Usage, Purchase, Tax, Credit or Adjustment; a refund is a Purchase"),
    Field("charge_class", TYPE, derive=_class, how="Correction for a refund"),
    Field("charge_description", "ProductName Product MeterName MeterCategory"),
    Field(
        "charge_frequency", "Frequency", derive=lambda row: FREQUENCIES.get(_word(row, "Frequency")), how="in the words of FOCUS"
    ),
    Field("commitment_discount_id", COMMITMENT),
    Field(
        "commitment_discount_status",
        f"{TYPE} {COMMITMENT} PricingModel",
        derive=_status,
        how="Unused of an unused reservation or savings plan, Used of usage that has one",
    ),
    Field(
        "consumed_quantity",
        "Quantity UsageQuantity UnitOfMeasure",
        derive=_consumed_quantity,
        how="quantity x the block of the unit: 0.0004 of 10K are 4",
    ),
    Field(
        "consumed_unit", "UnitOfMeasure", derive=_consumed_unit, how="what the block is of: 10K are Units, 100 Hours are Hours"
    ),
    Field(
        "pricing_category",
        "PricingModel",
        derive=lambda row: PRICING_MODELS.get(_word(row, "PricingModel")),
        how="OnDemand is Standard, Spot is Dynamic, Reservation and SavingsPlan are Committed",
    ),
    Field("pricing_quantity", "Quantity UsageQuantity"),
    Field("pricing_unit", "UnitOfMeasure"),
    Field("provider_name", derive=lambda row: "Microsoft", how="Microsoft"),
    Field("billing_account_id", f"{ACCOUNT} {SUBSCRIPTION}"),
    Field("sub_account_id", SUBSCRIPTION),
    Field("invoice_id", "InvoiceId"),
    Field(
        "resource_id",
        f"{RESOURCE} AdditionalInfo",
        derive=_resource_id,
        how="as it is; of a scale set the one machine that AdditionalInfo names",
    ),
    Field(
        "resource_type",
        "AdditionalInfo MeterName MeterCategory ResourceType",
        derive=_resource_type,
        how="the size of a virtual machine in AdditionalInfo, else its meter, else the type",
    ),
    Field("region_id", "ResourceLocation"),
    Field("availability_zone", "AvailabilityZone"),
    Field("service_category", "ServiceFamily"),
    Field("service_name", "MeterCategory ConsumedService"),
    Field("sku_id", "MeterId ProductId"),
    Field("sku_price_id", "PartNumber"),
    Field("tags", "Tags"),
)

AZURE = Format(
    name="azure",
    title="Azure cost export",
    remedy="export actual or amortised cost details again",
    fields=FIELDS,
    needs=(COST, DATE, "BillingCurrency BillingCurrencyCode Currency", f"{ACCOUNT} {SUBSCRIPTION}"),
    note=_note,
)
