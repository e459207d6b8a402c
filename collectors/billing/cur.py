"""AWS Cost and Usage Reports: CUR 2.0 (Data Exports) and the legacy CUR, CSV or Parquet.

Sources: the FinOps Foundation's focus_converters (`conversion_rules_export/csv/aws-cur.csv`) and AWS's table
dictionary of CUR 2.0. The legacy CSV writes `lineItem/UsageType` for what Parquet and CUR 2.0 call
`line_item_usage_type`; the names below are those of CUR 2.0.

Quirks, each handled where its column is filled:

- Cost as invoiced is the unblended cost, after discounts (`net`) where the report has that column. Then lines that are
  a discount themselves (`EdpDiscount`, …) have no net cost: it is in the lines they reduce.
- Usage covered by a savings plan carries its on-demand price, which a `SavingsPlanNegation` line takes back: both are
  kept as delivered, so that the invoice adds up. Its effective cost is the plan's, that of the negation 0.
- Usage covered by a reservation is unblended 0; its effective cost is the reservation's share. Where only the parts of
  that share are there (amortised upfront, recurring fee) they are added.
- Fees of reservations and savings plans hold two charges: the fee (a purchase, no effective cost) and what of the
  commitment nobody used. The second becomes a line of its own, `Unused`.
- Split cost allocation adds a line per pod with a share of its node's cost in `split_line_item_…` columns and no cost
  of its own: it lands at 0, since the node's line has the money.
- `identity/LineItemId` repeats and is no key; `TimeInterval` is the day, `UsageStartDate` the hour.
- Fees, taxes and refunds span the whole month, also the part that has not come yet.
- The SKU is opaque, so the instance type stands in `resource_type`: it tells what hardware a line is of.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from collectors.billing.mapping import Field, Format, Line, Row, SecondCharge
from collectors.billing.spelling import difference, instant, is_zero, json_object, resource_id, total

TYPE = "line_item_line_item_type"
NET, UNBLENDED = "line_item_net_unblended_cost", "line_item_unblended_cost"
PLAN, RESERVATION = "savings_plan_savings_plan_a_r_n", "reservation_reservation_a_r_n"
PLAN_COST = ("savings_plan_net_savings_plan_effective_cost", "savings_plan_savings_plan_effective_cost")
RESERVED_COST = ("reservation_net_effective_cost", "reservation_effective_cost")
RESERVED_PARTS = (
    ("reservation_net_amortized_upfront_cost_for_usage", "reservation_amortized_upfront_cost_for_usage"),
    ("reservation_net_recurring_fee_for_usage", "reservation_recurring_fee_for_usage"),
)
UNUSED_PARTS = (
    (
        "reservation_net_unused_amortized_upfront_fee_for_billing_period",
        "reservation_unused_amortized_upfront_fee_for_billing_period",
    ),
    ("reservation_net_unused_recurring_fee", "reservation_unused_recurring_fee"),
)
POD_SHARE = "split_line_item_split_cost"
COMMITMENT, USED = "savings_plan_total_commitment_to_date", "savings_plan_used_commitment"


@dataclass(frozen=True)
class LineType:
    """What FOCUS says of a line item type."""

    category: str
    frequency: str
    klass: str | None = None
    is_discount: bool = False


_DISCOUNT = LineType("Usage", "Usage-Based", is_discount=True)
LINE_TYPES: Mapping[str, LineType] = {
    "Usage": LineType("Usage", "Usage-Based"),
    "DiscountedUsage": LineType("Usage", "Usage-Based"),
    "SavingsPlanCoveredUsage": LineType("Usage", "Usage-Based"),
    "SavingsPlanNegation": LineType("Usage", "Usage-Based"),
    "Fee": LineType("Purchase", "One-Time"),
    "RIFee": LineType("Purchase", "Recurring"),
    "SavingsPlanUpfrontFee": LineType("Purchase", "One-Time"),
    "SavingsPlanRecurringFee": LineType("Purchase", "Recurring"),
    "Tax": LineType("Tax", "One-Time"),
    "Credit": LineType("Credit", "One-Time"),
    # paid back of what was invoiced, over a whole month: as Usage it would tell that the month's usage has come
    "Refund": LineType("Adjustment", "One-Time", "Correction"),
    "Discount": _DISCOUNT,
    "BundledDiscount": _DISCOUNT,
    "EdpDiscount": _DISCOUNT,
    "PrivateRateDiscount": _DISCOUNT,
    "RiVolumeDiscount": _DISCOUNT,
    "SppDiscount": _DISCOUNT,
    "DistributorDiscount": _DISCOUNT,
}
_BY_WORD = {name.lower(): name for name in LINE_TYPES}

_INSTANCE_TYPE = re.compile(r":((?:\w+\.)?[a-z][a-z0-9-]*\.(?:nano|micro|small|medium|large|\d*xlarge|metal[\w-]*))$")


def _type(row: Row) -> str:
    given = row.get(TYPE, "")
    return _BY_WORD.get(given.lower(), given)


def _category(row: Row) -> str | None:
    known = LINE_TYPES.get(_type(row))
    return known.category if known else row.get(TYPE)


def _frequency(row: Row) -> str | None:
    known = LINE_TYPES.get(_type(row))
    return known.frequency if known else None


def _class(row: Row) -> str | None:
    known = LINE_TYPES.get(_type(row))
    return known.klass if known else None


def _billed_cost(row: Row) -> str | None:
    known = LINE_TYPES.get(_type(row))
    if known and known.is_discount and NET in row.columns and NET not in row:
        return "0"
    # a share of a node's cost that a pod had is told beside the node's own line
    return row.first(NET, UNBLENDED) or ("0" if POD_SHARE in row else None)


def _effective_cost(row: Row) -> str | None:
    kind = _type(row)
    if kind == "SavingsPlanCoveredUsage":
        if (cost := row.first(*PLAN_COST)) is None:
            raise ValueError(f"usage covered by a savings plan without {PLAN_COST[1]}; export that column too")
        return cost
    if kind == "DiscountedUsage":
        if (cost := row.first(*RESERVED_COST)) is not None:
            return cost
        parts = [row.first(*names) for names in RESERVED_PARTS]
        if parts == [None, None]:
            raise ValueError(f"usage covered by a reservation without {RESERVED_COST[1]}; export that column too")
        return total(*parts)
    is_commitment = kind in ("SavingsPlanNegation", "SavingsPlanUpfrontFee", "SavingsPlanRecurringFee", "RIFee")
    if is_commitment or (kind == "Fee" and RESERVATION in row):
        return "0"
    return _billed_cost(row)


def _unused_cost(row: Row) -> str | None:
    """What of a commitment nobody used, which the report gives on the line of its fee; None where all was used."""
    kind, cost = _type(row), None
    if kind == "SavingsPlanRecurringFee" and COMMITMENT in row:
        cost = difference(row[COMMITMENT], row.get(USED, "0"))
    elif kind == "RIFee":
        cost = total(*(row.first(*names) for names in UNUSED_PARTS))
    return None if cost is None or is_zero(cost) else cost


def _unused(fee: Line, cost: str) -> Line:
    nothing = dict.fromkeys(("list_cost", "consumed_quantity", "pricing_quantity", "charge_class"))
    return {
        **fee,
        **nothing,
        "billed_cost": "0",
        "effective_cost": cost,
        "charge_category": "Usage",
        "charge_frequency": "Usage-Based",
        "charge_description": f"unused part of: {fee['charge_description'] or fee['commitment_discount_id']}",
        "commitment_discount_status": "Unused",
        "pricing_category": "Committed",
    }


def _status(row: Row) -> str | None:
    return "Used" if _type(row) in ("DiscountedUsage", "SavingsPlanCoveredUsage") else None


def _pricing_category(row: Row) -> str | None:
    if _type(row) in ("DiscountedUsage", "SavingsPlanCoveredUsage", "SavingsPlanNegation", "RIFee", "SavingsPlanRecurringFee"):
        return "Committed"
    if "SpotUsage" in row.get("line_item_usage_type", "") or row.get("pricing_term", "").lower() == "spot":
        return "Dynamic"
    return "Standard" if _type(row) == "Usage" else None


def _product(row: Row, *names: str) -> str | None:
    """A product attribute: a column of its own, or an entry of CUR 2.0's map `product`."""
    if (found := row.first(*(f"product_{name}" for name in names))) is not None:
        return found
    attributes = json_object(row.get("product")) or {}
    return next((str(attributes[name]) for name in names if attributes.get(name)), None)


def _resource_type(row: Row) -> str | None:
    if instance := _product(row, "instance_type"):
        return instance
    match = _INSTANCE_TYPE.search(row.get("line_item_usage_type", ""))
    return match[1] if match else _product(row, "product_family")


def _service_name(row: Row) -> str | None:
    return _product(row, "servicename", "product_name") or row.get("line_item_product_code")


def _service_category(row: Row) -> str | None:
    code = row.get("line_item_product_code", "")
    if "Support" in code:
        return "Support"
    return {
        "AmazonEC2": "Compute",
        "AmazonEKS": "Compute",
        "AmazonSageMaker": "AI and Machine Learning",
        "AmazonBedrock": "AI and Machine Learning",
        "AmazonS3": "Storage",
        "AmazonEFS": "Storage",
        "AmazonFSx": "Storage",
    }.get(code)


def _tag(column: str) -> str | None:
    """`resourceTags/user:team`, and `resource_tags_user_team` of the legacy Parquet."""
    match = re.fullmatch(r"resource_?tags[/_](?:user[:_])?(.+)", column.strip(), re.IGNORECASE)
    return match[1] if match else None


_PRODUCT = "product"
FIELDS = (
    Field(
        "billed_cost",
        f"{NET} {UNBLENDED} {TYPE} {POD_SHARE}",
        derive=_billed_cost,
        how="the net cost, else the unblended; 0 for a discount that net costs hold already, and for a pod's share",
    ),
    Field(
        "effective_cost",
        " ".join(
            [TYPE, NET, UNBLENDED, POD_SHARE, RESERVATION, *PLAN_COST, *RESERVED_COST, *RESERVED_PARTS[0], *RESERVED_PARTS[1]]
        ),
        derive=_effective_cost,
        how="of covered usage what plan or reservation give it; 0 for their fees and a negation; else the billed cost",
    ),
    Field("list_cost", "pricing_public_on_demand_cost"),
    Field("billing_currency", "line_item_currency_code", spell=str.upper),
    Field("billing_period_start", "bill_billing_period_start_date", spell=instant),
    Field("billing_period_end", "bill_billing_period_end_date", spell=instant),
    Field("charge_period_start", "line_item_usage_start_date", spell=instant),
    Field("charge_period_end", "line_item_usage_end_date", spell=instant),
    Field(
        "charge_category",
        TYPE,
        derive=_category,
        how="Usage, Purchase, Tax, Credit or Adjustment by the line item type; discounts are Usage",
    ),
    Field("charge_class", TYPE, derive=_class, how="Correction for a refund"),
    Field("charge_description", "line_item_line_item_description"),
    Field("charge_frequency", TYPE, derive=_frequency, how="by the line item type"),
    Field("commitment_discount_id", f"{PLAN} {RESERVATION}"),
    Field(
        "commitment_discount_status",
        TYPE,
        derive=_status,
        how="Used of discounted and covered usage; an unused part is a line of its own",
    ),
    Field("consumed_quantity", "line_item_usage_amount"),
    Field("consumed_unit", "pricing_unit"),
    Field(
        "pricing_category",
        f"{TYPE} line_item_usage_type pricing_term",
        derive=_pricing_category,
        how="Committed, Dynamic (spot) or Standard",
    ),
    Field("pricing_quantity", "line_item_usage_amount"),
    Field("pricing_unit", "pricing_unit"),
    Field("provider_name", derive=lambda row: "AWS", how="AWS"),
    Field("billing_account_id", "bill_payer_account_id"),
    Field("sub_account_id", "line_item_usage_account_id"),
    Field("invoice_id", "bill_invoice_id"),
    Field("resource_id", "line_item_resource_id", spell=resource_id),
    Field(
        "resource_type",
        f"product_instance_type line_item_usage_type product_product_family {_PRODUCT}",
        derive=_resource_type,
        how="the instance type of the product or of the usage type, else the product family",
    ),
    Field("region_id", "product_region_code product_region"),
    Field("availability_zone", "line_item_availability_zone"),
    Field(
        "service_category", "line_item_product_code", derive=_service_category, how="that of the product code, where it is known"
    ),
    Field(
        "service_name",
        f"product_servicename product_product_name line_item_product_code {_PRODUCT}",
        derive=_service_name,
        how="the product's name, else its code",
    ),
    Field("sku_id", "product_sku"),
    Field("sku_price_id", "pricing_rate_code pricing_rate_id"),
    Field("tags", "resource_tags tags"),
)

CUR = Format(
    name="cur2",
    title="AWS CUR",
    remedy="create the Data Export with all columns",
    fields=FIELDS,
    needs=(
        f"{UNBLENDED} {NET}",
        "line_item_currency_code",
        "bill_billing_period_start_date",
        "bill_billing_period_end_date",
        "line_item_usage_start_date",
        "line_item_usage_end_date",
        TYPE,
        "bill_payer_account_id",
    ),
    tag_of=_tag,
    second=SecondCharge(
        Field(
            "effective_cost",
            f"{TYPE} {COMMITMENT} {USED} {' '.join(sum(UNUSED_PARTS, ()))}",
            derive=_unused_cost,
            how="what of a commitment nobody used, on the line of its fee",
        ),
        _unused,
    ),
)
