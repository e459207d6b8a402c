"""`python -m collectors billing FILE…`: land a bill in the FOCUS format."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import click
import polars as pl

from collectors import command
from collectors.billing.client import content_hash, read_bill
from collectors.billing.deliveries import delivery_time, landed_deliveries
from collectors.billing.parse import Bill, newest_usage_end, rounded_providers
from collectors.billing.schema import TABLE
from collectors.command import SourceFailedError
from warehouse.conform import Reject, conform
from warehouse.landing import CollectionOutcome, Landing

SOURCE = "billing"


def collect(
    files: Sequence[Path], *, delivery_id: str | None, delivered_at: datetime | None, landing: Landing
) -> CollectionOutcome:
    """Land the lines of `files`, which together are one delivery of a bill.

    A bill belongs to no cluster; which of its lines are GPUs of which cluster is for the warehouse to say.
    """
    ordered = sorted(files, key=lambda path: (path.name, str(path)))
    bills = [read_bill(path) for path in ordered]
    delivery_id = delivery_id or f"focus-{content_hash(ordered)[:16]}"
    lines = pl.concat([bill.frame for bill in bills], how="diagonal_relaxed") if len(bills) > 1 else bills[0].frame
    reaches = newest_usage_end(lines)
    if reaches is None:
        raise SourceFailedError(
            f"{', '.join(bill.file for bill in bills)}: no line with a readable ChargePeriodEnd; is the bill empty?"
        )
    if delivered_at is None:
        delivered_at = delivery_time(lines, delivery_id, reaches, landed_deliveries(landing.home.raw))
    rejects = [reject for bill in bills for reject in bill.rejects]
    frames: list[pl.DataFrame] = []
    last_line = 0
    for bill in bills:
        marked = bill.frame.with_columns(
            pl.lit(delivery_id).alias("delivery_id"), pl.lit(delivered_at, dtype=pl.Datetime("us")).alias("delivered_at")
        )
        if len(bills) > 1:
            marked, refused = _continued(marked, bill.file, last_line)
            rejects += refused
            last_line += bill.last_line
        frames.append(marked)
    return landing.land(
        SOURCE,
        {TABLE.name: frames},
        inputs=[bill.file for bill in bills],
        rejects=rejects,
        notes=notes(bills, lines, delivery_id, delivered_at),
    )


def _continued(frame: pl.DataFrame, file: str, last_line: int) -> tuple[pl.DataFrame, list[Reject]]:
    """The rows of one of several files: rejects keep its name and line, rows are numbered on from the file before.

    A line of a delivery is known by its number, so two files of one delivery must not both have a line 2.
    """
    checked = conform(TABLE, frame, file)
    return checked.rows.with_columns(pl.col("line_number") + last_line), checked.rejects


def notes(bills: Sequence[Bill], lines: pl.DataFrame, delivery_id: str, delivered_at: datetime) -> list[str]:
    """What a person should know about this bill that is no reject."""
    found = [f"delivery {delivery_id}, taken as delivered at {delivered_at:%Y-%m-%dT%H:%M:%SZ}"]
    for provider, count, billed, effective in rounded_providers(lines):
        found.append(
            f"warning: EffectiveCost of {provider} is a whole number in all {count} lines while BilledCost is not "
            f"({effective:.2f} against {billed:.2f} in sum): it seems to be rounded, and costs per unit rest on it; "
            "values are landed as delivered"
        )
    extra = list(dict.fromkeys(name for bill in bills for name in bill.extra))
    if extra:
        found.append(f"columns without a place in the landing shape, left out: {', '.join(extra)}")
    ignored = list(dict.fromkeys(name for bill in bills for name in bill.ignored))
    if ignored:
        found.append(f"the provider's own columns, left out: {', '.join(ignored)}")
    unreadable = sum(bill.unreadable_tags for bill in bills)
    if unreadable:
        found.append(f"tags of {unreadable} lines are no JSON object and are left out; the lines landed")
    return found


@click.command(SOURCE)
@click.argument("files", nargs=-1, required=True, type=command.FILES)
@click.option(
    "--format",
    "bill_format",
    type=click.Choice(["focus"]),
    default="focus",
    show_default=True,
    help="FOCUS 1.0 or later, CSV (plain or gzip) or Parquet.",
)
@click.option("--delivery-id", help="Names this delivery; without it the files' content does.")
@click.option(
    "--delivered-at",
    type=command.INSTANT,
    help="When the provider delivered it: of two deliveries for one day the newest stands. Without it the end of the "
    "newest usage in it, or just after the newest delivery of the same account that has landed, if that is later.",
)
@command.collector_options
def billing(
    files: tuple[Path, ...],
    bill_format: str,
    delivery_id: str | None,
    delivered_at: datetime | None,
    cluster: str | None,
    as_json: bool,
    strict: bool,
) -> None:
    """Land a bill. The files of one call are one delivery of it.

    Times without an offset are UTC, as FOCUS says, and the text NULL is null. Amounts are landed as delivered.
    A bill belongs to no cluster: --cluster is accepted and not used.
    """
    with command.source(SOURCE, cluster=None, inputs=files):
        outcome = collect(files, delivery_id=delivery_id, delivered_at=delivered_at, landing=command.landing())
        command.report(outcome, as_json=as_json, strict=strict)
