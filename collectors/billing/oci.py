"""Oracle Cloud's cost reports (`reports/cost-csv`).

Sources: Oracle's description of the cost report and the FinOps Foundation's focus_converters
(`conversion_rules_export/csv/oci.csv`), which takes the subscription for the billing account and the tenancy for the
account below it.

Quirks, each handled where its column is filled:

- `intervalUsageStart` is `2023-11-13T10:00Z`, `intervalUsageEnd` in the same row `2023-11-13T11:00:00Z`.
- `myCost` has 18 digits. `myCostOverage` is what of it lies above a commitment, not something besides it.
- There is no billing period: a charge counts in its calendar month (UTC).
- A tag has a column of its own, `tags/Namespace.Key`, whose name may hold a backslash.
- `billedQuantity` counts units of the SKU (million data points); what was consumed is in reports of the newer form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from collectors.billing.mapping import Field, Format, Row
from collectors.billing.spelling import day_of, instant, midnight, month_of, resource_id

START, END = "lineItem/intervalUsageStart", "lineItem/intervalUsageEnd"
COST, CORRECTION = "cost/myCost", "lineItem/isCorrection"


def _period(of_month: int) -> Callable[[Row], str | None]:
    def derive(row: Row) -> str | None:
        return midnight(month_of(day_of(row[START]))[of_month]) if START in row else None

    return derive


def _class(row: Row) -> str | None:
    return "Correction" if row.get(CORRECTION, "").lower() == "true" else None


def _tag(column: str) -> str | None:
    match = re.fullmatch(r"tags/(.+)", column.strip())
    return match[1] if match else None


def _note(columns: Collection[str]) -> str | None:
    return "no billing period: each charge counts in its calendar month"


FIELDS = (
    Field("billed_cost", COST),
    Field("effective_cost", COST),
    Field("billing_currency", "cost/currencyCode", spell=str.upper),
    Field("billing_period_start", START, derive=_period(0), how="first day of the month of the charge (UTC)"),
    Field("billing_period_end", START, derive=_period(1), how="first day of the month after"),
    Field("charge_period_start", START, spell=instant),
    Field("charge_period_end", END, spell=instant),
    Field("charge_category", derive=lambda row: "Usage", how="Usage"),
    Field("charge_class", CORRECTION, derive=_class, how="Correction where it says true"),
    Field("charge_description", "product/Description"),
    Field("charge_frequency", derive=lambda row: "Usage-Based", how="Usage-Based"),
    Field("consumed_quantity", "usage/consumedQuantity"),
    Field("consumed_unit", "usage/consumedQuantityUnits"),
    Field("pricing_quantity", "usage/billedQuantity"),
    Field("pricing_unit", "cost/skuUnitDescription cost/billingUnitReadable"),
    Field("provider_name", derive=lambda row: "Oracle", how="Oracle"),
    Field("billing_account_id", "cost/subscriptionId lineItem/tenantId"),
    Field("sub_account_id", "lineItem/tenantId"),
    Field("resource_id", "product/resourceId", spell=resource_id),
    Field("resource_type", "product/Description"),
    Field("region_id", "product/region"),
    Field("availability_zone", "product/availabilityDomain"),
    Field("service_name", "product/service"),
    Field("sku_id", "cost/productSku"),
)

OCI = Format(
    name="oci",
    title="OCI cost report",
    remedy="fetch a report of reports/cost-csv (the usage reports hold no cost)",
    fields=FIELDS,
    needs=(COST, "cost/currencyCode", START, END, "lineItem/tenantId cost/subscriptionId"),
    tag_of=_tag,
    note=_note,
)
