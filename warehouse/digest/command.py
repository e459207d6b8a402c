"""`python -m warehouse digest`: the mail of a day, to look at or to send."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import click
import duckdb

from warehouse.alerts.conditions import Firing, evaluate
from warehouse.alerts.kinds import BUILD_HELD
from warehouse.atomic import BusyError
from warehouse.digest import server as servers
from warehouse.digest.editions import Edition, RecipientsError, read_recipients, recipients_path
from warehouse.digest.figures import Figures
from warehouse.digest.message import KINDS, write_file, write_files
from warehouse.digest.published import HeldFromTheStartError, NothingPublishedError
from warehouse.digest.reading import UnknownTeamError, read
from warehouse.digest.render import Digest, render
from warehouse.digest.send import Delivery, Letter, deliver
from warehouse.digest.server import MailServer, ServerSettingsError
from warehouse.digest.words import clean
from warehouse.home import Home
from warehouse.init.files import ConfigError

HELD = 3


class _EditionType(click.ParamType[Edition]):
    name = "edition"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Edition:
        try:
            return value if isinstance(value, Edition) else Edition.parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command("digest")
@click.option(
    "--date", "day", type=click.DateTime(["%Y-%m-%d"]), help="The UTC day; the last whole one that is published if absent."
)
@click.option("--edition", type=_EditionType(), default="fleet", help="Preview `fleet` or `team:<name>` with --to-file.")
@click.option("--to-file", type=click.Path(path_type=Path, dir_okay=False), help="Preview into this file: .html, .txt or .eml.")
@click.option("--send", is_flag=True, help="Send to config/digest_recipients.csv through GPU_NET_SMTP_…, once a day.")
@click.option("--resend", is_flag=True, help="With --send: send again what was sent, refused or left open.")
def digest_command(day: datetime | None, edition: Edition, to_file: Path | None, send: bool, resend: bool) -> None:
    """The e-mail of a day, from the published database and the verdict record.

    Without --send it is written to files: to --to-file, else every edition with recipients into digests/<date>. Exit
    codes: 0 done, 1 something failed, 2 wrong usage, 3 nothing was ever published because the gate holds it.
    """
    if resend and not send:
        raise click.UsageError("--resend goes with --send")
    if send and to_file:
        raise click.UsageError("--to-file previews and --send sends: use one of them")
    if to_file and to_file.suffix not in KINDS:
        raise click.UsageError(f"--to-file {to_file}: the ending says what to write, one of {', '.join(KINDS)}")
    home = Home.from_environment()
    wanted = day.date() if day else None
    try:
        if send:
            _send(home, wanted, resend)
        elif to_file:
            (digest,) = _render(home, [edition], wanted, None)
            write_file(digest, to_file.absolute())
            click.echo(f"{digest.subject}\n{to_file}")
        else:
            _preview(home, edition, wanted)
    except HeldFromTheStartError as error:
        click.echo(str(error), err=True)
        sys.exit(HELD)
    except (NothingPublishedError, RecipientsError, UnknownTeamError, BusyError, OSError, duckdb.Error) as error:
        click.echo(str(error), err=True)
        sys.exit(1)


def _preview(home: Home, edition: Edition, day: date | None) -> None:
    """Write the edition, and every other that has recipients, into `digests/<date>`."""
    home.create()
    recipients, refused = read_recipients(home)
    for digest in _render(home, [edition, *(recipient.edition for recipient in recipients)], day, refused):
        click.echo(digest.subject)
        for path in write_files(digest, home.digests / f"{digest.usage_date}"):
            click.echo(f"  {path}")
    _tell(refused)


def _send(home: Home, day: date | None, resend: bool) -> None:
    try:
        server = servers.from_environment()
    except ServerSettingsError as error:
        raise click.UsageError(str(error)) from None
    deliveries, refused = send_editions(home, server, datetime.now(UTC).replace(tzinfo=None), day=day, resend=resend)
    if not deliveries and not refused:
        raise click.UsageError(f"nobody to send to: {recipients_path(home)} has no recipients")
    for delivery in deliveries:
        click.echo(delivery.line, err=delivery.is_trouble)
    _tell(refused)
    if refused or any(delivery.is_trouble for delivery in deliveries):
        sys.exit(1)


def send_editions(
    home: Home, server: MailServer, now: datetime, *, day: date | None = None, resend: bool = False
) -> tuple[list[Delivery], list[str]]:
    """Send every recipient their edition of a day, at most once; what became of each, and the rows that name nobody.

    For the command and for a DAG, which differ in their server only. Raises NothingPublishedError, RecipientsError, BusyError.
    """
    recipients, refused = read_recipients(home)
    rendered = {digest.edition: digest for digest in _render(home, [one.edition for one in recipients], day, refused)}
    letters = [Letter(one, rendered[one.edition]) for one in recipients if one.edition in rendered]
    return deliver(home, letters, server, now, resend=resend), refused


def _render(home: Home, editions: Sequence[Edition], day: date | None, refused: list[str] | None) -> list[Digest]:
    """Each edition once; one of a team that nobody knows is told in `refused` (None: raises), and the others are made."""
    digests = []
    for edition in dict.fromkeys(editions):
        try:
            figures = read(home, edition, day)
            digests.append(render(replace(figures, alerts=read_alerts(home, figures))))
        except UnknownTeamError as error:
            if refused is None:
                raise
            refused.append(f"{edition}: {error}")
    return digests


def read_alerts(home: Home, figures: Figures) -> list[str]:
    """What fires, as far as the edition may tell it: of each rule the worst; the hold is told by the mail in its own words.

    Of an earlier day nothing is said: rules are asked of the last one.
    """
    try:
        evaluation = evaluate(home, datetime.now(UTC).replace(tzinfo=None))
    except ConfigError as error:
        return [clean(f"The rules cannot be read: {error}", 400)] if figures.edition.team is None else []
    if evaluation.usage_date not in (None, figures.usage_date):
        return []
    fires = [firing for firing in evaluation.of(figures.edition) if firing.rule.kind.name != BUILD_HELD]
    by_rule: dict[str, list[Firing]] = {}
    for firing in fires:
        by_rule.setdefault(firing.rule.name, []).append(firing)
    said = []
    for name, found in by_rule.items():
        more = f" And {len(found) - 1} more." if len(found) > 1 else ""
        said.append(f"{clean(name)}: {clean(found[0].says, 600)}{more}")
    return said + ([clean(problem, 400) for problem in evaluation.problems] if figures.edition.team is None else [])


def _tell(refused: Sequence[str]) -> None:
    for line in refused:
        click.echo(line, err=True)
