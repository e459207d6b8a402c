"""The public bills land whole: their sums per provider, category and currency are those of a plain SQL over the file."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from collectors.billing.collect import billing

pytestmark = pytest.mark.real

#: file, provider, category, currency, billed cost and effective cost, as an analyst would write them over the file's columns
BILLS = [
    (
        "focus-1.0-sample/focus_sample.csv",
        "ProviderName",
        "ChargeCategory",
        "BillingCurrency",
        "BilledCost::decimal(38, 20)",
        "EffectiveCost::decimal(38, 20)",
    ),
    (
        "focus-converters/aws-cur-2023-11.csv",
        "'AWS'",
        """case "lineItem/LineItemType" when 'Usage' then 'Usage' when 'Tax' then 'Tax' when 'Credit' then 'Credit'
            when 'Fee' then 'Purchase' when 'RIFee' then 'Purchase' when 'Refund' then 'Adjustment'
            when 'DiscountedUsage' then 'Usage' when 'SavingsPlanCoveredUsage' then 'Usage' end""",
        '"lineItem/CurrencyCode"',
        '"lineItem/UnblendedCost"::decimal(38, 20)',
        None,
    ),
    (
        "focus-converters/azure-ea-2023-09.csv",
        "'Microsoft'",
        "ChargeType",
        "BillingCurrencyCode",
        None,
        "CostInBillingCurrency::decimal(38, 25)",
    ),
    (
        "focus-converters/oci-cost-2023-11.csv",
        "'Oracle'",
        "'Usage'",
        '"cost/currencyCode"',
        """coalesce(nullif("cost/myCost", '')::decimal(38, 20), 0)""",
        """coalesce(nullif("cost/myCost", '')::decimal(38, 20), 0)""",
    ),
    (
        "azure-ea-finops-toolkit/EA_ActualCost_Small.csv",
        "'Microsoft'",
        "ChargeType",
        "BillingCurrency",
        "Cost::decimal(38, 25)",
        None,
    ),
    (
        "azure-ea-finops-toolkit/EA_AmortizedCost_Small.csv",
        "'Microsoft'",
        "case when ChargeType like 'Unused%' then 'Usage' else ChargeType end",
        "BillingCurrency",
        None,
        "Cost::decimal(38, 25)",
    ),
]


@pytest.mark.parametrize("bill", BILLS, ids=[Path(bill[0]).stem for bill in BILLS])
def test_sums_per_provider_category_and_currency_are_those_of_the_file(
    home: Path, real_data: Path, bill: tuple[str, str, str, str, str | None, str | None]
) -> None:
    file, provider, category, currency, billed, effective = bill
    result = CliRunner().invoke(billing, [str(real_data / file)])
    assert result.exit_code == 0, result.output
    connection = duckdb.connect()
    amounts = [(name, amount) for name, amount in (("billed_cost", billed), ("effective_cost", effective)) if amount]
    for name, amount in amounts:
        expected = connection.execute(
            f"""select {provider}, {category}, {currency}, count(*), sum(({amount})::decimal(38, 20))
            from read_csv('{real_data / file}', all_varchar = true) group by all order by all"""
        ).fetchall()
        landed = connection.execute(
            f"""select provider_name, charge_category, billing_currency, count(*), sum({name})
            from read_parquet('{home}/raw/billing/billing_lines/**/*.parquet') group by all order by all"""
        ).fetchall()
        assert [row[:4] for row in landed] == [row[:4] for row in expected], name
        # an amount lands with 12 digits behind the point: half a unit of the last one a line
        for found, wanted in zip(landed, expected, strict=True):
            assert abs(float(found[4] - wanted[4])) <= wanted[3] * 5e-13 + 1e-15, (name, found, wanted)
