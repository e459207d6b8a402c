"""What a digest says, in words: figures become the strings that HTML, text and pictures lay out. No layout here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warehouse.differences.records import days_text
from warehouse.digest import lists, words
from warehouse.digest.figures import PRODUCTIVE, Figures, Net, Step
from warehouse.digest.lists import Row
from warehouse.digest.restated import Restated
from warehouse.first_screen import NO_TIME, Amount

#: eighths of a line's height, for the trend in plain text
_BARS = "▁▂▃▄▅▆▇█"
#: days whose ratio the text names, not only draws
_NAMED_DAYS = 7
MOST_ALERTS = 10
_NUMBER_OF_FLEET = "GPU Net: productive share of the capacity in service"
_NUMBER_OF_TEAM = "productive share of the GPU time held"


@dataclass(frozen=True)
class Notice:
    """Something a reader must know before the figures; `details` are its reasons."""

    text: str
    details: Sequence[str] = ()


@dataclass(frozen=True)
class Bar:
    """A row of the waterfall; `kind` is whole, ghost, productive or other."""

    label: str
    kind: str
    hours: str
    money: str
    amount: Amount


@dataclass(frozen=True)
class Page:
    """An edition in words. Lists that are empty are left out of the mail; `…_note` say what the list is by."""

    subject: str
    edition: str
    day: str
    notices: Sequence[Notice]
    number: str
    number_says: str
    changes: Sequence[str]
    summary: Sequence[str]
    trend: str
    trend_bars: str
    waterfall: Sequence[Bar]
    waterfall_says: str
    ghosts: Sequence[Row]
    ghosts_note: str
    unit_costs: Sequence[Row]
    unit_costs_note: str
    moves: Sequence[Row]
    moves_note: str
    restated: Sequence[Row]
    restated_note: str
    restated_why: Sequence[str]
    money: Sequence[Row]
    sources: Sequence[Row]
    sources_note: str
    warnings: Sequence[str]
    foot: Sequence[str]


def write(figures: Figures) -> Page:
    """Say a day's figures."""
    today = figures.today
    is_fleet = figures.edition.team is None
    edition = "the fleet" if is_fleet else f"team {words.clean(figures.edition.team or '')}"
    bars = _bars(figures) if today else []
    rank = "by money" if figures.is_ranked_by_money else "by GPU-hours"
    return Page(
        subject=_subject(figures, edition),
        edition=edition,
        day=f"{figures.usage_date:%A}, {figures.usage_date} (UTC)",
        notices=_notices(figures),
        number=_ratio(today),
        number_says="GPU Net: productive share of the capacity in service"
        if is_fleet
        else "productive share of the GPU time held",
        changes=_changes(figures) if today else [],
        summary=_summary(figures),
        trend=_trend(figures),
        trend_bars=_trend_bars(figures),
        waterfall=bars,
        waterfall_says=_waterfall_says(bars),
        ghosts=[lists.say_ghost(ghost, figures) for ghost in figures.ghosts],
        ghosts_note=_first_of(len(figures.ghosts), figures.ghosts_in_all, rank),
        unit_costs=[lists.say_unit_cost(cost) for cost in figures.unit_costs],
        unit_costs_note=_first_of(len(figures.unit_costs), figures.unit_costs_in_all, "by tokens"),
        moves=[lists.say_move(move, figures) for move in figures.moves],
        moves_note=_moves_note(figures),
        restated=lists.say_restated(figures.restated) if figures.restated else [],
        restated_note=say_restated_note(figures.restated) if figures.restated else "",
        restated_why=lists.say_causes(figures.restated.causes) if figures.restated else [],
        money=[lists.say_cost_source(source, amount) for source, amount in figures.cost_sources],
        sources=[lists.say_source(source) for source in figures.sources],
        sources_note=_first_of(len(figures.sources), figures.sources_in_all, "what needs a look first"),
        warnings=figures.warnings,
        foot=_foot(figures),
    )


def _subject(figures: Figures, edition: str) -> str:
    today = figures.today
    if today is None:
        said = "no GPU time" if figures.edition.team else "no GPU in inventory"
    else:
        change = _change(today, figures.day_before)
        lost = figures.lost
        what = words.money(lost) if lost.costs else f"{words.hours(lost.gpu_hours)} GPU-hours"
        name = "GPU Net" if figures.edition.team is None else "productive"
        said = f"{name} {_ratio(today)}{f' ({change})' if change else ''}, {what} lost"
    if figures.edition.team is not None:
        said = f"{words.isolated(edition)}: {said}"
    if figures.mail_date != figures.usage_date:
        return f"No figures for {figures.mail_date}: the newest build is held · {figures.usage_date}: {said}"
    return f"{said} · {figures.usage_date}{' · newest build held' if figures.hold else ''}"


def _ratio(day: Net | None) -> str:
    """The ratio, or the interval that is all that can be said; a dash where there is nothing to take a share of."""
    if day is None or day.low is None or day.high is None:
        return "–"
    return words.percent(day.low) if day.ratio is not None else f"{words.percent(day.low)} to {words.percent(day.high)}"


def _change(day: Net, before: Net | None) -> str:
    """The difference to another day in points; empty where one of them is an interval, or nothing."""
    if before is None or before.ratio is None or day.ratio is None:
        return ""
    return words.points(day.ratio - before.ratio)


def _changes(figures: Figures) -> list[str]:
    assert figures.today is not None
    said = []
    for name, day in (("the day before", figures.day_before), ("the seven days before", figures.week_before)):
        if day is None or day.low is None:
            continue
        change = _change(figures.today, day)
        said.append(f"{change} on {name} ({_ratio(day)})" if change else f"{name}: {_ratio(day)}")
    if figures.day_before is None:
        is_first = len(figures.days) == 1 and figures.edition.team is None
        said.append("the first day there is: nothing to compare with yet" if is_first else "no figures for the day before")
    return said


def _summary(figures: Figures) -> list[str]:
    today, lost, team = figures.today, figures.lost, figures.edition.team
    if today is None:
        if team is None:
            return [f"No GPU was in inventory on {figures.usage_date}."]
        return [f"No workload of the team held a GPU on {figures.usage_date}."]
    base = "in service" if team is None else "held"
    said = [f"{words.hours(today.productive)} of {words.hours(today.base)} GPU-hours {base} were productive."]
    if lost.costs:
        said.append(f"Ghost capacity took {words.hours(lost.gpu_hours)} GPU-hours and {words.money(lost)}.")
    else:
        said.append(f"Ghost capacity took {words.hours(lost.gpu_hours)} GPU-hours.")
    if (unpriced := figures.whole.unpriced_gpu_hours) > NO_TIME:
        said.append(f"{words.hours(unpriced)} GPU-hours have no price: a rate card or a bill would tell what they cost.")
    if today.coverage is not None:
        said.append(f"{words.percent(today.coverage)} of the time held was observed.")
    return said


def _notices(figures: Figures) -> list[Notice]:
    notices = []
    if hold := figures.hold:
        text = (
            f"The newest build ({words.clean(hold.build_id)}, checked {hold.checked_at:%Y-%m-%d %H:%M} UTC) is held by the gate; "
            f"these figures are the last that were published. Why:"
        )
        notices.append(Notice(text, hold.failures))
    if not figures.is_whole_day:
        through = figures.publication.data_through_at
        notices.append(Notice(f"This day is not complete: data go through {through:%Y-%m-%d %H:%M} UTC."))
    if figures.today and figures.today.low is not None and figures.today.ratio is None:
        text = (
            "Too little was observed for one number: the interval counts the time that no sample covers as not productive, "
            "and as productive."
        )
        notices.append(Notice(text))
    if figures.alerts:
        count = len(figures.alerts)
        more = [f"and {count - MOST_ALERTS} more: python -m warehouse alerts"] if count > MOST_ALERTS else []
        notices.append(Notice("Alerts:", [*figures.alerts[:MOST_ALERTS], *more]))
    return notices


def _trend(figures: Figures) -> str:
    known = [day for day in figures.days if day.low is not None][-_NAMED_DAYS:]
    return ", ".join(f"{day.usage_date:%m-%d} {_ratio(day)}" for day in known) if len(known) > 1 else ""


def _trend_bars(figures: Figures) -> str:
    """A character per day; a blank for one without figures."""
    if not figures.days or max((day.low or 0.0) for day in figures.days) <= 0:
        return ""
    most = max(day.low or 0.0 for day in figures.days)
    first = figures.days[0].usage_date
    bars = [" "] * ((figures.days[-1].usage_date - first).days + 1)
    for day in figures.days:
        if day.low is not None:
            bars[(day.usage_date - first).days] = _BARS[round(day.low / most * (len(_BARS) - 1))]
    return "".join(bars)


def _bars(figures: Figures) -> list[Bar]:
    """The waterfall's rows: the whole, then the steps that have hours or money, and productive, whose absence is news."""
    label = "Capacity" if figures.edition.team is None else "Held"
    bars = [Bar(label, "whole", lists.gpu_hours(figures.whole), words.money(figures.whole), figures.whole)]
    for step in figures.steps:
        if step.state == PRODUCTIVE or step.amount.gpu_hours > NO_TIME or any(step.amount.costs.values()):
            bars.append(Bar(step.label, _kind(step), lists.gpu_hours(step.amount), words.money(step.amount), step.amount))
    return bars


def _kind(step: Step) -> str:
    if step.state == PRODUCTIVE:
        return "productive"
    return "ghost" if step.is_ghost else "other"


def _waterfall_says(bars: Sequence[Bar]) -> str:
    """The picture in words, for those who do not see it."""
    if not bars:
        return ""
    said = [f"{bar.label} {_both(bar)}" for bar in bars]
    return f"{said[0]}, of which: {'; '.join(said[1:])}."


def _both(bar: Bar) -> str:
    parts = [bar.hours if bar.amount.gpu_hours > NO_TIME or not bar.amount.costs else "", bar.money if bar.money != "–" else ""]
    return ", ".join(part for part in parts if part)


def _foot(figures: Figures) -> list[str]:
    publication = figures.publication
    through = f"{publication.data_through_at:%Y-%m-%d %H:%M} UTC" if publication.data_through_at else "an unknown instant"
    edition = words.isolated(words.clean(str(figures.edition)))
    return [
        f"Publication {publication.publication_id} of {publication.published_at:%Y-%m-%d %H:%M} UTC, data through {through}, "
        f"{publication.checks_passed} checks passed.",
        f"You get this because digest_recipients.csv names you for the edition {edition}.",
    ]


def _first_of(shown: int, all_of_them: int, order: str) -> str:
    """How a list is ordered, and how many more there are."""
    return f"{order}, {shown} of {words.count(all_of_them)}" if all_of_them > shown else order


def say_restated_note(restated: Restated) -> str:
    """Which days moved, against what; or that it cannot be told."""
    if restated.mail_day:
        since = f"the mail of {restated.mail_day}, made of {words.clean(restated.publication_id)}"
    else:
        since = f"the publication before, {words.clean(restated.publication_id)}"
    if restated.cannot:
        return f"Which earlier days moved since {since}, cannot be told: {words.clean(restated.cannot, 200)}."
    return f"Since {since}, figures of {days_text(restated.days)} moved."


def _moves_note(figures: Figures) -> str:
    if figures.moves:
        return f"largest changes {'of money' if figures.is_ranked_by_money else 'of GPU-hours'} since the day before"
    return "" if figures.today is None else ("nothing of note" if figures.day_before else "nothing is known of the day before")
