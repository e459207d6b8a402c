"""`python -m collectors simulate`: a made-up fleet, and what became of its time."""

from __future__ import annotations

from datetime import datetime, timedelta

import click

from collectors import command
from warehouse.command_line import INSTANT
from warehouse.home import Home

LANDING, NATIVE = "landing", "native"
#: seconds between two scrapes that `dcgm` and `inference` take for granted
NATIVE_INTERVAL = 60


@click.command("simulate")
@click.option("--gpus", type=click.IntRange(8, 10_000), default=60, show_default=True, help="How many cards.")
@click.option("--days", type=click.FloatRange(1 / 24, 400), default=14, show_default=True, help="How long; whole hours.")
@click.option("--seed", type=int, default=1, show_default=True, help="Another seed is another fleet.")
@click.option("--until", "until_at", type=INSTANT, help="Where the plan ends, on a whole hour [today at midnight, UTC].")
@click.option(
    "--as",
    "form",
    type=click.Choice([LANDING, NATIVE]),
    default=LANDING,
    show_default=True,
    help="Land it in the landing shape, or write the sources' own formats below GPU_NET_HOME/incoming.",
)
@click.option(
    "--interval",
    type=click.Choice(["5", "6", "10", "12", "15", "20", "30", "60"]),
    help="Seconds between two samples [landing 10, native 60].",
)
@click.option(
    "--usage-every",
    type=click.Choice(["1", "5"]),
    default="1",
    show_default=True,
    help="Minutes that a landed row of inference usage stands for.",
)
@click.option("--from", "from_at", type=INSTANT, help="Write the plan from here on only [its beginning].")
@click.option("--to", "to_at", type=INSTANT, help="Write the plan up to here only [its end].")
@click.option("--json", "as_json", is_flag=True, help="Print the outcomes as JSON.")
def simulate(
    gpus: int,
    days: float,
    seed: int,
    until_at: datetime | None,
    form: str,
    interval: str | None,
    usage_every: str,
    from_at: datetime | None,
    to_at: datetime | None,
    as_json: bool,
) -> None:
    """Make up a fleet of three clusters with ghost capacity of every kind, and write the true answer beside it.

    The same options make the same fleet. --from and --to write a part of it, so that one plan can come in parts: most of it
    landed, its last hours as the files that tools write. The answer, GPU_NET_HOME/simulation/….csv, is always of the whole.
    """
    try:
        from collectors.simulate.answer import write_answer
        from collectors.simulate.world import Parameters, make_plan
    except ModuleNotFoundError as error:
        raise click.UsageError(f"simulate needs {error.name}, which a GPU host does not: install gpu-net[warehouse]") from None

    until_at = until_at or command.utc_now().replace(hour=0, minute=0, second=0, microsecond=0)
    if until_at != until_at.replace(minute=0, second=0, microsecond=0):
        raise click.UsageError("--until must be a whole hour")
    parameters = Parameters(gpus, max(1, round(days * 24)), seed, until_at)
    window = parameters.window
    from_at, to_at = from_at or window.start_at, to_at or window.until_at
    if not window.start_at <= from_at < to_at <= window.until_at:
        raise click.UsageError(f"--from and --to must lie in the plan: {window.start_at:%Y-%m-%dT%HZ} to {until_at:%Y-%m-%dT%HZ}")
    if (from_at - window.start_at) % timedelta(minutes=1) or (to_at - window.start_at) % timedelta(minutes=1):
        raise click.UsageError("--from and --to must be whole minutes")
    plan = make_plan(parameters)
    first, last = window.minute_of(from_at), window.minute_of(to_at)
    home = Home.from_environment().create()
    if form == LANDING:
        from collectors.simulate.land import land_plan

        outcomes = land_plan(
            plan, parameters, first, last, command.landing(), interval=int(interval or 10), usage_every=int(usage_every)
        )
        for outcome in outcomes:
            click.echo(outcome.as_json() if as_json else outcome.summary())
    else:
        from collectors.simulate.native.write import write_native

        if interval not in (None, str(NATIVE_INTERVAL)):
            raise click.UsageError("--as native writes a scrape a minute, as the collectors of saved scrapes take for granted")
        incoming = home.root / "incoming"
        click.echo(f"simulate: {write_native(plan, first, last, incoming)} files in {incoming}")
    click.echo(f"simulate: the answer is in {write_answer(plan, parameters, home)}", err=as_json)
