"""What a person should know about a bill that is no reject."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Context, Decimal, InvalidOperation

import polars as pl

from collectors.billing.parse import Bill
from collectors.billing.schema import ALLOWED, SCALE

_EXACT = Context(prec=100)
#: names shown of the columns left out
_MOST_NAMES = 40


def findings(bills: Sequence[Bill], lines: pl.DataFrame, delivery_id: str, delivered_at: datetime) -> list[str]:
    """One sentence each, warnings first."""
    formats = ", ".join(dict.fromkeys(bill.format.title for bill in bills))
    return [
        f"delivery {delivery_id}, read as {formats}, taken as delivered at {delivered_at:%Y-%m-%dT%H:%M:%SZ}",
        *_rounded(lines),
        *_free_commitments(lines),
        *_unknown_words(lines),
        *_cut_digits(lines),
        *dict.fromkeys(bill.note for bill in bills if bill.note),
        *_split(bills),
        *_left_out(bills),
    ]


def _rounded(lines: pl.DataFrame) -> Iterator[str]:
    for provider, count, billed, effective in rounded_providers(lines):
        yield (
            f"warning: EffectiveCost of {provider} is a whole number in all {count} lines while BilledCost is not "
            f"({effective:.2f} against {billed:.2f} in sum): it seems to be rounded; values are landed as delivered, and the "
            "build works out costs of GPUs from what was not rounded, or warns where nothing is left to do so"
        )


def rounded_providers(lines: pl.DataFrame) -> list[tuple[str, int, float, float]]:
    """Providers whose effective costs are all whole numbers while billed costs are not: (name, lines, billed, effective)."""
    if not lines.height:
        return []
    summed = (
        # a purchase that is amortised has no effective cost, which is no rounding
        _costs(lines.filter(pl.col("charge_category").ne_missing("Purchase")))
        .group_by("provider_name")
        .agg(
            pl.len().alias("lines"),
            pl.col("billed").sum(),
            pl.col("effective").sum(),
            ((pl.col("effective") % 1) == 0).all().alias("is_whole"),
            ((pl.col("billed") % 1) != 0).any().alias("has_fractions"),
        )
    )
    rows = summed.filter("is_whole", "has_fractions").sort("provider_name")
    return [(row["provider_name"], row["lines"], row["billed"], row["effective"]) for row in rows.iter_rows(named=True)]


def _costs(lines: pl.DataFrame) -> pl.DataFrame:
    return lines.select(
        pl.col("provider_name").cast(pl.String),
        pl.col("billed_cost").cast(pl.Float64, strict=False).alias("billed"),
        pl.col("effective_cost").cast(pl.Float64, strict=False).alias("effective"),
    ).drop_nulls()


def _free_commitments(lines: pl.DataFrame) -> Iterator[str]:
    """Usage that a commitment covers, without any cost: what covers it was paid elsewhere, or left out of the bill."""
    if "commitment_discount_status" not in lines.columns:
        return
    covered = lines.filter(pl.col("commitment_discount_status") == "Used")
    free = _costs(covered).filter(pl.col("billed") == 0, pl.col("effective") == 0)
    for provider, count in free.group_by("provider_name").len().sort("provider_name").iter_rows():
        yield (
            f"warning: {count} lines of {provider} are usage that a commitment covers, billed and effective 0: the "
            "commitment's share is not in this bill, so those hours look free; deliver the amortised export"
        )


def _unknown_words(lines: pl.DataFrame) -> Iterator[str]:
    words = lines["charge_category"].drop_nulls().unique().sort().to_list()
    if unknown := [word for word in words if word not in ALLOWED["charge_category"]]:
        yield f"charge types that are not known here, landed as they are: {', '.join(unknown[:_MOST_NAMES])}"


def _cut_digits(lines: pl.DataFrame) -> Iterator[str]:
    for column in ("billed_cost", "effective_cost"):
        count, most, lost = 0, 0, Decimal(0)
        for text in lines[column].drop_nulls():
            try:
                value = Decimal(text)
                digits = -int(value.as_tuple().exponent)
                landed = value.quantize(Decimal(1).scaleb(-SCALE), context=_EXACT)
            except (InvalidOperation, ValueError):
                continue
            if landed != value:
                count, most, lost = count + 1, max(most, digits), _EXACT.add(lost, _EXACT.subtract(landed, value))
        if count:
            yield (
                f"{column} of {count} lines has up to {most} digits behind the point, of which {SCALE} land: "
                f"rounding moves the sum by {lost.normalize():E}"
            )


def _split(bills: Sequence[Bill]) -> Iterator[str]:
    for bill in bills:
        if bill.split_lines:
            yield (
                f"{bill.file}: {bill.split_lines} lines hold a second charge (an unused commitment, a promotion), landed as "
                f"lines of their own, numbered behind the last line of the file"
            )


def _left_out(bills: Sequence[Bill]) -> Iterator[str]:
    for title, names in (
        ("columns without a place in the landing shape", [name for bill in bills for name in bill.extra]),
        ("the provider's own columns", [name for bill in bills for name in bill.ignored]),
    ):
        distinct = list(dict.fromkeys(names))
        more = f" and {len(distinct) - _MOST_NAMES} more" if len(distinct) > _MOST_NAMES else ""
        if distinct:
            yield f"{title}, left out: {', '.join(distinct[:_MOST_NAMES])}{more}"
    unreadable = sum(bill.unreadable_tags for bill in bills)
    if unreadable:
        yield f"tags of {unreadable} lines are no JSON object and are left out; the lines landed"


def is_actual(bill: Bill) -> bool:
    """Whether a bill has commitments as their purchase alone: purchases without an effective cost, covered usage at 0."""
    is_purchase = (pl.col("charge_category") == "Purchase") & (pl.col("billed") != 0) & (pl.col("effective") == 0)
    is_covered = pl.col("commitment_discount_status") == "Used"
    if _holds(bill, is_purchase):
        return True
    return _holds(bill, is_covered) and not _holds(bill, is_covered & (pl.col("effective") != 0))


def is_amortised(bill: Bill) -> bool:
    """Whether a bill has a commitment as shares of usage: effective costs that were not billed."""
    return _holds(bill, (pl.col("charge_category") == "Usage") & (pl.col("billed") == 0) & (pl.col("effective") != 0))


def _holds(bill: Bill, condition: pl.Expr) -> bool:
    costs = bill.frame.with_columns(
        pl.col("billed_cost").cast(pl.Float64, strict=False).alias("billed"),
        pl.col("effective_cost").cast(pl.Float64, strict=False).alias("effective"),
    )
    return costs.filter(condition).height > 0
