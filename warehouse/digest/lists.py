"""The entries of a digest's lists in words: ghosts, unit costs, what moved, where prices come from, what was observed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from warehouse.differences import Move as Difference
from warehouse.differences.command import change_text, value_text
from warehouse.differences.records import days_text
from warehouse.digest import words
from warehouse.digest.figures import COMMITMENT, PRODUCTIVE, Figures, Ghost, Move, Source, UnitCost
from warehouse.digest.restated import Restated
from warehouse.first_screen import NO_TIME, Amount

#: figures of which more is better, or less
BETTER = {"gpu_net_ratio": True, "productive_gpu_hours": True, "ghost_gpu_hours": False, "ghost_cost": False}


@dataclass(frozen=True)
class Row:
    """An entry of a list: what it is about, what is said of it, what it amounts to, what one would do.

    `amounts` are figures with what they are per (often nothing); the first is the one that counts, its `tone` good, bad or empty.
    """

    title: str
    where: str
    says: str
    amounts: Sequence[tuple[str, str]]
    advice: str = ""
    tone: str = ""


def say_ghost(ghost: Ghost, figures: Figures) -> Row:
    reason = words.reason_words(ghost.reason)
    return Row(
        title=_workload(ghost.workload, ghost.state),
        where=_where(ghost.cluster, ghost.team, figures),
        says=f"{ghost.label}: {reason}" if reason else ghost.label,
        amounts=_plain(words.money(ghost.amount), gpu_hours(ghost.amount)),
        advice=words.remedy(ghost.state, ghost.reason),
    )


def _workload(workload: str, state: str) -> str:
    if workload == words.NOBODY:
        return "commitments" if state == COMMITMENT else "held by nobody"
    return words.clean(workload)


def _where(cluster: str, team: str, figures: Figures) -> str:
    parts = [words.clean(cluster) if cluster != words.NOBODY else ""]
    if figures.edition.team is None and team not in (words.NOBODY, "unknown"):
        parts.append(f"team {words.clean(team)}")
    return ", ".join(part for part in parts if part)


def say_unit_cost(cost: UnitCost) -> Row:
    tokens = _price(cost, cost.per_million_tokens, cost.before_per_million_tokens, "per million tokens")
    requests = _price(cost, cost.per_thousand_requests, cost.before_per_thousand_requests, "per 1,000 successful requests")
    if not tokens:
        tokens = [("–", "no price" if cost.null_reason == "unpriced" else words.reason_words(cost.null_reason or "no tokens"))]
    return Row(
        title=words.clean(cost.model),
        where=f"{words.clean(cost.workload)}, {words.clean(cost.cluster)}",
        says=f"{words.count(cost.tokens)} tokens, {words.count(cost.requests)} requests",
        amounts=[*tokens, *requests, *_list_price(cost)],
    )


def _list_price(cost: UnitCost) -> list[tuple[str, str]]:
    """What buying would have cost, by token where there are any; empty where no list price is configured."""
    is_by_token = cost.tokens > 0 and cost.list_per_million_tokens is not None
    price = cost.list_per_million_tokens if is_by_token else cost.list_per_thousand_requests
    if price is None or cost.list_model is None:
        return []
    unit = "per million tokens" if is_by_token else "per 1,000 requests"
    ours = f": ours is {cost.cost_to_list_ratio:,.2f} times that" if cost.cost_to_list_ratio is not None else ""
    listed = f"{words.clean(cost.list_model)} of {words.clean(cost.list_provider or 'unknown')}"
    return [(f"{words.unit_price(price)} {words.clean(cost.currency, 12)}", f"{unit} is the list price of {listed}{ours}")]


def _price(cost: UnitCost, now: Decimal | None, before: Decimal | None, unit: str) -> list[tuple[str, str]]:
    """A price, and what it is for with its change; empty where there is none."""
    if now is None:
        return []
    change = f", {words.relative(before, now)}" if before else ""
    return [(f"{words.unit_price(now)} {words.clean(cost.currency, 12)}", f"{unit}{change}")]


def say_move(move: Move, figures: Figures) -> Row:
    gpu_hours = move.change.gpu_hours
    is_worse = move.is_ghost == (gpu_hours > 0)
    is_judged = move.is_ghost or move.state == PRODUCTIVE
    return Row(
        title=_workload(move.workload, ""),
        where=_where(move.cluster, move.team, figures),
        says=f"{move.label}{f', {move.kind}' if move.kind else ''}",
        amounts=_plain(_signed_hours(gpu_hours), *_signed_money(move.change)),
        tone=("bad" if is_worse else "good") if is_judged and abs(gpu_hours) > NO_TIME else "",
    )


def _signed_hours(gpu_hours: float) -> str:
    return f"{words.signed(f'{gpu_hours:+,.1f}')} GPU-hours"


def _signed_money(change: Amount) -> list[str]:
    known = [f"{words.signed(f'{cost:+,.2f}')} {words.clean(currency, 12)}" for currency, cost in sorted(change.costs.items())]
    if change.unpriced_gpu_hours > NO_TIME:
        known.append("and time without a price" if known else "no price")
    return known


def say_restated(restated: Restated) -> list[Row]:
    """Before, after, change and the kind of reason: of all days together, of the largest days, of the largest workloads."""
    days = f"{len(restated.days)} days" if len(restated.days) > 1 else days_text(restated.days)
    return [
        *(_say_difference(move, move.label, days) for move in restated.figures),
        *(_say_difference(move, str(move.usage_date), move.label) for move in restated.by_day),
        *(_say_difference(move, words.clean(move.member), move.label) for move in restated.by_workload),
    ]


def _say_difference(move: Difference, title: str, where: str) -> Row:
    before, after = (words.clean(value_text(move, value)) for value in (move.before, move.after))
    why = f"; {', '.join(move.why)}" if move.why else ""
    change = re.sub(r"-(?=\d)", "−", words.clean(change_text(move)))
    is_judged = move.figure in BETTER and move.change
    tone = ("good" if (move.change > 0) == BETTER[move.figure] else "bad") if is_judged else ""
    return Row(title, where, f"{before} → {after}{why}", _plain(change), tone=tone)


def say_causes(causes: Sequence[tuple[str, str]]) -> list[str]:
    """The reasons, each in a sentence; of a kind alone what the kind means."""
    return [f"{kind}: {words.clean(text, 300)}" if text else words.CAUSES.get(kind, kind) for kind, text in causes]


def say_source(source: Source) -> Row:
    cluster = words.clean(source.cluster) if source.cluster != words.NOBODY else "all clusters"
    parts = [f"{words.count(source.rows_landed)} rows" if source.rows_landed else "silent: no row for this day"]
    if source.rows_quarantined:
        parts.append(f"{words.count(source.rows_quarantined)} quarantined")
    if source.last_landed_at:
        parts.append(f"last landed {source.last_landed_at:%m-%d %H:%M}")
    return Row(
        title=words.clean(source.source),
        where=cluster,
        says=", ".join(parts),
        amounts=_plain(words.percent(source.coverage) if source.coverage is not None else "–"),
        tone="" if source.rows_landed else "bad",
    )


def say_cost_source(source: str, amount: Amount) -> Row:
    return Row(words.COST_SOURCES.get(source, words.clean(source)), "", "", _plain(words.money(amount), gpu_hours(amount)))


def gpu_hours(amount: Amount) -> str:
    return f"{words.hours(amount.gpu_hours)} GPU-hours" if amount.gpu_hours > NO_TIME or not amount.costs else ""


def _plain(*figures: str) -> list[tuple[str, str]]:
    return [(figure, "") for figure in figures if figure]
