"""`python -m collectors prometheus --url URL`: land what a Prometheus-compatible API has stored."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click

from collectors import command
from collectors.command import SourceFailedError
from collectors.metrics.scraping import total
from collectors.prometheus.client import TIMEOUT_SECONDS, Prometheus
from collectors.prometheus.clusters import (
    REPLICA_LABELS,
    SOURCE,
    Cluster,
    NothingThereError,
    Request,
    clusters,
    collect,
    read_since,
)
from collectors.prometheus.window import Span
from warehouse.landing.landings import CollectionOutcome, Landing

TOKEN = "GPU_NET_PROMETHEUS_TOKEN"
#: without --since, and with nothing landed yet
FIRST_LOOK_BACK = timedelta(days=1)
#: without --until: what is on its way (remote write, a slow scrape) has arrived by then
SETTLED = timedelta(minutes=1)
LONGEST_CHUNK, SHORTEST_CHUNK = timedelta(days=1), timedelta(seconds=1)
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


class Duration(click.ParamType[timedelta]):
    """`90`, `90s`, `15m`, `1h`, `1d`."""

    name = "duration"

    def __init__(self, least: timedelta, most: timedelta) -> None:
        self.least, self.most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        match = re.fullmatch(r"(\d{1,7}(?:\.\d{1,3})?)\s*([smhd]?)", str(value).strip())
        length = timedelta(seconds=float(match[1]) * _UNITS[match[2]]) if match else None
        if length is None or not self.least <= length <= self.most:
            self.fail(f"{value!r} is no duration from {self.least} to {self.most}; write 90s, 15m, 1h or 1d", param, ctx)
        return length


@click.command(SOURCE)
@click.option("--url", envvar="GPU_NET_PROMETHEUS_URL", help="The API's address, http://HOST:9090 [GPU_NET_PROMETHEUS_URL].")
@click.option(
    "--since",
    type=command.INSTANT,
    help="The first instant to read; without it reading goes on where the last landing of the cluster ended, or a day before "
    "--until where there is none.",
)
@click.option("--until", type=command.INSTANT, help="The instant to stop before; without it a minute ago.")
@click.option(
    "--chunk",
    type=Duration(SHORTEST_CHUNK, LONGEST_CHUNK),
    help="Land so much time at once, cut at full multiples of it; an hour, or less where an hour holds millions of samples.",
)
@click.option(
    "--dcgm-interval",
    type=Duration(timedelta(milliseconds=50), timedelta(hours=1)),
    help="Time between two scrapes of dcgm-exporter; without it each series tells it.",
)
@click.option("--match", "more", default="", help='Only series with these labels: \'job="dcgm",region=~"eu-.*"\'.')
@click.option(
    "--cluster-label",
    help="The label that names the cluster, where one server holds several; --cluster is then for series without it.",
)
@click.option(
    "--replica-label",
    "replica_labels",
    multiple=True,
    default=REPLICA_LABELS,
    show_default=True,
    help="A label that only tells two Prometheus servers of a pair apart: what both have scraped counts once.",
)
@click.option("--tenant", help="Sent as X-Scope-OrgID (Mimir, Cortex, Loki-style tenants).")
@click.option("--ca-file", type=command.FILES, help="Certificates to trust instead of the system's.")
@click.option(
    "--timeout", type=click.FloatRange(1, 3600), default=TIMEOUT_SECONDS, show_default=True, help="Seconds per question."
)
@command.collector_options
def prometheus(
    url: str | None,
    since: datetime | None,
    until: datetime | None,
    chunk: timedelta | None,
    dcgm_interval: timedelta | None,
    more: str,
    cluster_label: str | None,
    replica_labels: tuple[str, ...],
    tenant: str | None,
    ca_file: Path | None,
    timeout: float,
    cluster: str | None,
    as_json: bool,
    strict: bool,
) -> None:
    """Land what a Prometheus-compatible API has stored: GPU samples, pods and nodes, inference servers.

    Samples are read as they were scraped, at their own times, in chunks that land one by one: what was read before an
    error has landed, and the next call goes on there. A bearer token is taken from GPU_NET_PROMETHEUS_TOKEN.
    """
    if not url:
        raise click.UsageError("give the API's address: --url http://HOST:9090, or GPU_NET_PROMETHEUS_URL")
    until = until or (command.utc_now() - SETTLED).replace(microsecond=0)
    if since and since >= until:
        raise click.UsageError(f"nothing lies between --since {since.isoformat()}Z and --until {until.isoformat()}Z")
    if not cluster_label:
        command.require_cluster(cluster)
    client = Prometheus(url, os.environ.get(TOKEN) or None, tenant, ca_file, timeout)
    request = Request(replica_labels, chunk, dcgm_interval)
    landing = command.landing()
    with command.source(SOURCE, cluster=cluster):
        since_when = since or _earliest(landing, cluster) or until - FIRST_LOOK_BACK
        chosen = clusters(client, cluster_label, cluster, more.strip().strip("{}"), Span(min(since_when, until), until))
        outcomes, failures = _collect_all(client, request, chosen, since, until, landing)
        outcome = total(SOURCE, cluster or "", outcomes)
        if not failures:
            command.report(outcome, as_json=as_json, strict=strict)
            return
        if outcomes:
            with suppress(SystemExit):  # that rows were quarantined weighs less than what follows
                command.report(outcome, as_json=as_json, strict=strict)
        raise SourceFailedError("; ".join(failures))


def _collect_all(
    client: Prometheus, request: Request, chosen: Sequence[Cluster], since: datetime | None, until: datetime, landing: Landing
) -> tuple[list[CollectionOutcome], list[str]]:
    """The outcomes of all chunks of all clusters, and what failed; a cluster that fails does not keep the next from landing."""
    outcomes: list[CollectionOutcome] = []
    failures: list[str] = []
    empty: list[str] = []
    for one in chosen:
        begin = since or read_since(landing, one.name) or until - FIRST_LOOK_BACK
        if begin >= until:
            continue
        read_to = begin
        try:
            for outcome in collect(client, request, one, Span(begin, until), landing):
                outcomes.append(outcome)
                read_to = outcome.window.end_at or read_to
                click.echo(outcome.summary(), err=True)
        except NothingThereError as error:
            empty.append(str(error))
        except SourceFailedError as error:
            through = f"{one.name} has landed through {read_to:%Y-%m-%dT%H:%M:%SZ}, the next call goes on there"
            failures.append(f"{error}; {through if read_to > begin else 'nothing has landed'}")
    if empty and len(empty) == len(chosen):
        failures.append(empty[0])
    if outcomes and empty and len(empty) < len(chosen):
        note = f"nothing to read of {len(empty)} of {len(chosen)} clusters"
        outcomes[-1] = replace(outcomes[-1], notes=[*outcomes[-1].notes, note])
    return outcomes, failures


def _earliest(landing: Landing, cluster: str | None) -> datetime | None:
    return read_since(landing, cluster) if cluster else None
