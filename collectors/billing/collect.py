"""`python -m collectors billing FILE…`: land a bill in the provider's own format or in FOCUS."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import click
import polars as pl

from collectors import command
from collectors.billing.azure import AZURE
from collectors.billing.client import content_hash, read_bill
from collectors.billing.deliveries import delivery_time, landed_deliveries
from collectors.billing.findings import findings, is_actual, is_amortised
from collectors.billing.formats import FORMATS, NOTHING, Wish, mapping_table
from collectors.billing.parse import Bill, newest_usage_end
from collectors.billing.schema import TABLE
from collectors.command import SourceFailedError
from warehouse.landing.conform import Reject, conform
from warehouse.landing.landings import CollectionOutcome, Landing

SOURCE = "billing"
_NAMED_AGAIN = (
    "a delivery of this name has landed before: of a date that both tell, the lines landed last stand; "
    "files that together are one delivery belong into one call"
)


def collect(
    files: Sequence[Path],
    *,
    wish: Wish = NOTHING,
    delivery_id: str | None,
    delivered_at: datetime | None,
    landing: Landing,
) -> CollectionOutcome:
    """Land the lines of `files`, which together are one delivery of a bill.

    A bill belongs to no cluster; which of its lines are GPUs of which cluster is for the warehouse to say.
    """
    ordered = sorted(files, key=lambda path: (path.name, str(path)))
    bills = [read_bill(path, wish) for path in ordered]
    _refuse_two_views(bills)
    before = landed_deliveries(landing.home.raw)
    is_named_again = delivery_id is not None and delivery_id in before["delivery_id"]
    delivery_id = delivery_id or f"{bills[0].format.name}-{content_hash(ordered, wish)[:16]}"
    lines = pl.concat([bill.frame for bill in bills], how="diagonal_relaxed") if len(bills) > 1 else bills[0].frame
    reaches = newest_usage_end(lines)
    if reaches is None:
        causes = [f"; {bill.file}:{reject.line}: {reject.detail}" for bill in bills for reject in bill.rejects[:1]]
        raise SourceFailedError(
            f"{', '.join(bill.file for bill in bills)}: no line with a readable end of its charge period"
            f"{''.join(causes) or '; is the bill empty?'}"
        )
    if delivered_at is None:
        delivered_at = delivery_time(lines, delivery_id, reaches, before)
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
        notes=[*findings(bills, lines, delivery_id, delivered_at), *([_NAMED_AGAIN] if is_named_again else [])],
    )


def _continued(frame: pl.DataFrame, file: str, last_line: int) -> tuple[pl.DataFrame, list[Reject]]:
    """The rows of one of several files: rejects keep its name and line, rows are numbered on from the file before.

    A line of a delivery is known by its number, so two files of one delivery must not both have a line 2.
    """
    checked = conform(TABLE, frame, file)
    return checked.rows.with_columns(pl.col("line_number") + last_line), checked.rejects


def _refuse_two_views(bills: Sequence[Bill]) -> None:
    """Actual and amortised costs of one account are the same usage twice; landed apart, the one that counts later stands."""
    azure = [bill for bill in bills if bill.format is AZURE]
    actual = [bill.file for bill in azure if is_actual(bill)]
    amortised = [bill.file for bill in azure if is_amortised(bill)]
    if actual and amortised:
        raise SourceFailedError(
            f"{', '.join(actual)} has actual costs and {', '.join(amortised)} amortised ones: together they hold all other "
            "usage twice; land the amortised export alone (costs per unit rest on it)"
        )


def _show_mapping(context: click.Context, _: click.Parameter, name: str | None) -> None:
    if name is not None:
        click.echo(mapping_table(FORMATS[name]))
        context.exit()


@click.command(SOURCE)
@click.argument("files", nargs=-1, required=True, type=command.FILES)
@click.option(
    "--mapping",
    type=click.Choice(list(FORMATS)),
    is_eager=True,
    expose_value=False,
    callback=_show_mapping,
    help="Print how a format's columns become those of FOCUS, column by column, and end.",
)
@click.option(
    "--format",
    "bill_format",
    type=click.Choice(list(FORMATS)),
    help="FOCUS, AWS CUR (2.0 or legacy), Azure cost export, Google Cloud BigQuery export or OCI cost report; CSV or JSON "
    "lines, plain or gzip, or Parquet. Without it the header tells.",
)
@click.option("--currency", help="Currency of a bill that does not name it (ISO 4217).")
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
    bill_format: str | None,
    currency: str | None,
    delivery_id: str | None,
    delivered_at: datetime | None,
    cluster: str | None,
    as_json: bool,
    strict: bool,
) -> None:
    """Land a bill. The files of one call are one delivery of it.

    Each provider's columns are mapped onto FOCUS. Times without an offset are UTC, the text NULL is null, and amounts
    are landed as delivered, rounded to 12 digits behind the point.
    A bill belongs to no cluster: --cluster is accepted and not used.
    """
    with command.source(SOURCE, cluster=None, inputs=files):
        outcome = collect(
            files,
            wish=Wish(bill_format, {"billing_currency": currency.upper()} if currency else {}),
            delivery_id=delivery_id,
            delivered_at=delivered_at,
            landing=command.landing(),
        )
        command.report(outcome, as_json=as_json, strict=strict)
