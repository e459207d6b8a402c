"""Read the figures of a day from the published database, and from the verdict record whether a newer build is held."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import date

import duckdb

from warehouse.database import connect
from warehouse.digest.editions import Edition
from warehouse.digest.figures import (
    MOST_GHOSTS,
    MOST_MODELS,
    MOST_MOVES,
    MOST_SOURCES,
    Figures,
    Hold,
    Move,
    add,
)
from warehouse.digest.published import (
    HeldFromTheStartError,
    NothingPublishedError,
    last_whole_day,
    read_hold,
    read_publication,
)
from warehouse.digest.queries import Scope
from warehouse.digest.restated import read_restated
from warehouse.digest.words import NOBODY, clean
from warehouse.first_screen import NO_TIME, Amount
from warehouse.home import Home


class UnknownTeamError(ValueError):
    """A team that no workload belongs to; the message names those that the warehouse knows."""


def read(home: Home, edition: Edition, usage_date: date | None = None) -> Figures:
    """The figures of a UTC day for an edition; without `usage_date` of the last whole day that the publication covers.

    Raises NothingPublishedError and UnknownTeamError.
    """
    hold = read_hold(home)
    if not home.published_database.exists():
        if hold:
            raise HeldFromTheStartError(f"nothing was ever published: the gate holds build {hold.build_id}: {hold.failures[0]}")
        raise NothingPublishedError("nothing is published yet: land a source, then `python -m warehouse run`")
    with connect(home.published_database, read_only=True) as connection:
        figures = read_published(connection, edition, usage_date, hold)
        workload_ids = Scope(connection, edition.team, figures.usage_date).workload_ids()
    restated = read_restated(home, edition, figures.mail_date, figures.publication.publication_id, workload_ids)
    return replace(figures, restated=restated)


def read_published(
    connection: duckdb.DuckDBPyConnection, edition: Edition, usage_date: date | None = None, hold: Hold | None = None
) -> Figures:
    """The figures of an open published database; see `read`."""
    publication = read_publication(connection)
    day = usage_date or last_whole_day(connection, publication)
    if edition.team is not None:
        _check_team(connection, edition.team)
    scope = Scope(connection, edition.team, day)
    steps = scope.steps()
    ghosts = scope.ghosts(steps)
    by_money = _is_ranked_by_money([step.amount for step in steps])
    ghosts.sort(key=lambda ghost: _size(ghost.amount, by_money), reverse=True)
    unit_costs = scope.unit_costs()
    sources = scope.sources()
    return Figures(
        edition=edition,
        usage_date=day,
        publication=publication,
        hold=hold if hold and hold.build_id != publication.build_id else None,
        days=scope.days(),
        steps=steps,
        cost_sources=scope.cost_sources(steps),
        ghosts=ghosts[:MOST_GHOSTS],
        ghosts_in_all=len(ghosts),
        unit_costs=unit_costs[:MOST_MODELS],
        unit_costs_in_all=len(unit_costs),
        moves=_largest(scope.moves(add(step.amount for step in steps)), by_money),
        sources=sources[:MOST_SOURCES],
        sources_in_all=len(sources),
        warnings=scope.warnings(),
        is_ranked_by_money=by_money,
    )


def _check_team(connection: duckdb.DuckDBPyConnection, team: str) -> None:
    teams = [row[0] for row in connection.execute("select distinct team from dim_workloads order by team").fetchall()]
    if team not in teams:
        known = ", ".join(clean(name) for name in teams if name not in (NOBODY, "unknown")) or "none: workload_rules name them"
        raise UnknownTeamError(f"the warehouse knows no team {clean(team)!r}; teams it knows: {known}")


def _is_ranked_by_money(amounts: Iterable[Amount]) -> bool:
    """Whether money can be compared: all time has a price, in one currency."""
    total = add(amounts)
    return len(total.costs) == 1 and total.unpriced_gpu_hours <= NO_TIME


def _size(amount: Amount, by_money: bool) -> tuple[float, float]:
    cost = float(sum(amount.costs.values())) if by_money else 0.0
    return (cost, amount.gpu_hours) if by_money else (amount.gpu_hours, 0.0)


def _largest(moves: list[Move], by_money: bool) -> list[Move]:
    """The largest changes up, then the largest down."""
    moves.sort(key=lambda move: _size(move.change, by_money), reverse=True)
    zero = (0.0, 0.0)
    up = [move for move in moves if _size(move.change, by_money) > zero][:MOST_MOVES]
    down = [move for move in reversed(moves) if _size(move.change, by_money) < zero][:MOST_MOVES]
    return up + down
