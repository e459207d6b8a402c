"""FOCUS, versions 1.0-preview to 1.3, as AWS, Microsoft, Google and Oracle deliver it.

Columns have the names of the specification (https://focus.finops.org), so the table names a landing column's FOCUS
name and, behind it, what other versions call the same. What differs between versions:

- 1.3 puts `ServiceProviderName` and `HostProviderName` in place of `ProviderName` (1.2 and before).
- `InvoiceId` came with 1.2; Microsoft's exports of 1.0 have it as `x_InvoiceId`.
- From 1.1 on `SkuPriceDetails` names the instance type, which `ResourceType` ("instance", "Virtual machine") does not;
  Microsoft has it in `x_SkuDetails`. It is what tells a GPU machine, so it stands in `resource_type` where it is given.
- 1.0-preview has `ChargeType`, `ChargeSubcategory`, `UsageQuantity`, `UsageUnit`, `Region` and `Provider`.

Quirks of deliveries: missing is the text `NULL`; times often have no offset and are UTC; `Usage-based` and
`Usage-Based`; tags without their braces. AWS names an EC2 instance by its ARN, Google one by its full name; both land
as nodes know themselves, so that lines and nodes meet; where Google's ResourceId has the number of an instance its name
is in ResourceName, and the number stands in `resource_alias`. Amounts land as delivered: where a delivery has rounded
EffectiveCost to whole units that is noted, and the warehouse works out the costs in scope from what was not rounded
(`x_EffectiveUnitPrice` x PricingQuantity, BilledCost or ContractedUnitPrice x PricingQuantity of what no commitment covers).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from collectors.billing.mapping import Field, Format, Row
from collectors.billing.schema import ALLOWED, COLUMNS, REQUIRED, focus_name
from collectors.billing.spelling import instant, json_object, resource_id, scale_set_machine
from warehouse.landing.shape import TABLES

#: landing column → what versions and providers call it besides its FOCUS name
OTHER_NAMES: Mapping[str, str] = {
    "provider_name": "ServiceProviderName HostProviderName Provider",
    "invoice_id": "x_InvoiceId",
    "region_id": "Region",
    "charge_category": "ChargeType",
    "commitment_discount_status": "ChargeSubcategory",
    "consumed_quantity": "UsageQuantity",
    "consumed_unit": "UsageUnit",
    "effective_unit_price": "x_EffectiveUnitPrice",
}
_GCE_NUMBER = re.compile(r"((?:https?:)?//compute\.googleapis\.com/projects/[^/]+/zones/[^/]+/instances/)(\d+)")
_WORDS = {column: {word.lower(): word for word in words} for column, words in ALLOWED.items()}
#: `ChargeSubcategory` of 1.0-preview
_SUBCATEGORIES = {"used commitment": "Used", "unused commitment": "Unused"}


def allowed_word(column: str, text: str) -> str:
    """A word that FOCUS fixes, in FOCUS's spelling; any other stays."""
    return _WORDS[column].get(text.lower(), text)


def _status(row: Row) -> str | None:
    if status := row.first("CommitmentDiscountStatus"):
        return allowed_word("commitment_discount_status", status)
    return _SUBCATEGORIES.get(row.get("ChargeSubcategory", "").lower())


#: columns with details of a SKU as JSON, and what they call the instance type
_SKU_DETAILS = {"SkuPriceDetails": ("InstanceType", "x_InstanceType"), "x_SkuDetails": ("ServiceType", "InstanceType")}


def _resource_type(row: Row) -> str | None:
    for column, names in _SKU_DETAILS.items():
        details = json_object(row.get(column)) or {}
        if found := next((details[name] for name in names if isinstance(details.get(name), str) and details[name]), None):
            return str(found)
    return row.get("ResourceType")


def _number_of_instance(row: Row) -> str | None:
    """The number by which Google's `ResourceId` names an instance, where `ResourceName` tells its name."""
    match = _GCE_NUMBER.fullmatch(row.get("ResourceId", ""))
    return match[2] if match and "ResourceName" in row else None


def _resource_id(row: Row) -> str | None:
    """The id by which a node knows itself: of a Google instance by its name, of a scale set the machine that the SKU names."""
    if "ResourceId" not in row:
        return None
    match = _GCE_NUMBER.fullmatch(row["ResourceId"])
    if match and "ResourceName" in row:
        return resource_id(f"{match[1]}{row['ResourceName'].rsplit('/', 1)[-1]}")
    details = json_object(row.get("x_SkuDetails")) or {}
    return resource_id(scale_set_machine(row["ResourceId"], str(details.get("VMName", ""))))


def _field(column: str) -> Field:
    sources = f"{focus_name(column)} {OTHER_NAMES.get(column, '')}"
    if column == "commitment_discount_status":
        return Field(column, sources, derive=_status, how="in the words of FOCUS; of 1.0-preview what ChargeSubcategory says")
    if column in ALLOWED:
        return Field(column, sources, spell=lambda text: allowed_word(column, text))
    if column == "resource_type":
        return Field(
            column,
            f"{sources} {' '.join(_SKU_DETAILS)}",
            derive=_resource_type,
            how="the instance type of the SKU's details, else the type",
        )
    if column == "resource_id":
        return Field(
            column,
            "ResourceId ResourceName x_SkuDetails",
            derive=_resource_id,
            how="as a node knows itself: an EC2 instance by its id, a Google instance by its name, one of a scale set",
        )
    if column == "resource_alias":
        return Field(
            column,
            "ResourceId ResourceName",
            derive=_number_of_instance,
            how="the number of a Google instance whose name is told",
        )
    if column == "billing_currency":
        return Field(column, sources, spell=str.upper)
    is_time = TABLES["billing_lines"].column(column).kind == "timestamp"
    return Field(column, sources, spell=instant if is_time else str)


FIELDS = tuple(_field(column) for column in COLUMNS)

FOCUS = Format(
    name="focus",
    title="FOCUS",
    remedy="export it as FOCUS 1.0 or later",
    fields=FIELDS,
    needs=tuple(field.sources for field in FIELDS if field.column in REQUIRED),
)
