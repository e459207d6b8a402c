"""`python -m collectors kubernetes`: pods, nodes and devices from the API server, or from saved objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path

import click

from collectors import command
from collectors.command import SourceFailedError
from collectors.files import read_file
from collectors.kubernetes.client import OWNERS, ApiError, KubernetesClient, find_server, remedy
from collectors.kubernetes.history import EVERYWHERE, History, complete_kinds, history_notes
from collectors.kubernetes.objects import Object
from collectors.kubernetes.parse import Snapshot, SnapshotBuilder, notes, read_snapshot
from collectors.kubernetes.remembered import SOURCE, remembering
from collectors.kubernetes.rows import Context, gather
from collectors.kubernetes.schema import END_EVENTS
from collectors.parsed import Parsed
from collectors.times import time_in_name
from warehouse.landing.conform import MALFORMED, Reject
from warehouse.landing.landings import CollectionOutcome, Landing, Window


def collect_files(
    files: Sequence[tuple[str, bytes, datetime | None]],
    *,
    cluster: str,
    own_resources: frozenset[str] = frozenset(),
    all_pods: bool = False,
    is_partial: bool = False,
    landing: Landing,
) -> CollectionOutcome:
    """Land what saved objects say (name, bytes, when they were saved). Of several files each is a reading of its own, in the
    order of their times; a later one that has all pods ends those that it lacks, unless `is_partial`.

    One file that cannot be read is a reject of the landing; if none can, SourceFailedError.
    """
    snapshots: list[Snapshot] = []
    rejects: list[Reject] = []
    failures: list[SourceFailedError] = []
    for name, data, at in files:
        try:
            snapshots.append(read_snapshot(data, name, at=at, own_resources=own_resources, all_pods=all_pods))
        except SourceFailedError as error:
            failures.append(error)
            rejects.append(Reject(name, None, MALFORMED, str(error)))
    if failures and not snapshots:
        raise failures[0]
    history, context = History(cluster, all_pods=all_pods), gather(snapshots)
    parsed = Parsed(rejects=rejects)
    for snapshot in sorted(snapshots, key=lambda snapshot: snapshot.at):
        parsed.extend(history.take(snapshot, context, {} if is_partial else complete_kinds(snapshot)))
    return landing.land(
        SOURCE,
        parsed.frames(),
        cluster=cluster,
        inputs=[name for name, _, _ in files],
        rejects=parsed.rejects,
        notes=[*notes(snapshots), *history_notes(history), *_reservation_notes(snapshots, context)],
    )


def collect_live(
    client: KubernetesClient,
    *,
    cluster: str,
    now: datetime,
    own_resources: frozenset[str] = frozenset(),
    all_pods: bool = False,
    landing: Landing,
) -> CollectionOutcome:
    """Land what the API server says now; pods and nodes that it had at the last call and has no more have ended since.

    Pods are the point: without them the source has failed. What else may not be read is a gap with its remedy.
    """
    target = "/".join([client.cluster_uid() or client.server.target, *sorted(client.namespaces)])
    builder = SnapshotBuilder(client.server.target, now, own_resources, all_pods)
    gaps: dict[str, str] = {}
    try:
        _add(builder, client.pods())
    except ApiError as error:
        raise SourceFailedError(remedy(error, "pods")) from None

    def try_to_add(items: Callable[[], Iterable[Object]], what: str) -> None:
        try:
            _add(builder, items())
        except SourceFailedError as error:
            gaps[what] = remedy(error, what) if isinstance(error, ApiError) else str(error)

    try_to_add(client.nodes, "nodes")
    try_to_add(client.devices, "resourceslices, resourceclaims")
    for kind in sorted(_unexplained_owners(builder.snapshot)):
        try_to_add(lambda kind=kind: client.owners(kind), OWNERS[kind][1])  # type: ignore[misc]
    with remembering(landing.home, cluster, target) as remembered:
        history = remembered.last(cluster, now)
        history.only_changes, history.all_pods = True, all_pods
        if set(history.pods) - {pod.uid for pod in builder.snapshot.pods}:
            for reason in END_EVENTS:
                try_to_add(lambda reason=reason: client.end_events(reason), "events")  # type: ignore[misc]
        snapshot = builder.finish()
        snapshot.listed = {"Pod"}
        complete = {"Pod": set(client.namespaces) or EVERYWHERE, **({} if "nodes" in gaps else {"Node": EVERYWHERE})}
        before, context = history.pods_at, gather([snapshot])
        parsed = history.take(snapshot, context, complete)
        return landing.land(
            SOURCE,
            parsed.frames(),
            cluster=cluster,
            inputs=[client.server.target],
            rejects=parsed.rejects,
            window=Window(before or now, now),
            gaps=gaps,
            source_version=client.version(),
            notes=[
                *(f"no {what}: {why}" for what, why in gaps.items()),
                *notes([snapshot]),
                *history_notes(history),
                *_reservation_notes([snapshot], context),
            ],
            before_commit=lambda run_id: remembered.save(history, now, run_id),
        )


def _add(builder: SnapshotBuilder, items: Iterable[Object]) -> None:
    for item in items:
        builder.add(item)


def _unexplained_owners(snapshot: Snapshot) -> set[str]:
    """Kinds of owners that may have an owner themselves. A Deployment's ReplicaSets are known by their names."""
    return {
        pod.owner.kind
        for pod in snapshot.pods
        if pod.owner and pod.owner.kind in OWNERS and not (pod.owner.kind == "ReplicaSet" and "pod-template-hash" in pod.labels)
    }


def _reservation_notes(snapshots: Sequence[Snapshot], context: Context) -> list[str]:
    """Reserved cards whose users are not among the pods: they are held, and by whom another file says."""
    lonely = sorted(set(context.fleet.reservations) - context.groups)
    if not lonely or any("Pod" in snapshot.listed for snapshot in snapshots):
        return []
    return [
        f"{len(lonely)} reserved GPUs whose pods are not among the files (groups {', '.join(lonely[:3])}): the reservation lands "
        "with its GPU in labels and holds nothing; give the pods of the group in the same call"
    ]


@click.command(SOURCE)
@click.argument("files", nargs=-1, type=command.FILES)
@click.option(
    "--at",
    "times",
    multiple=True,
    type=command.INSTANT,
    help="When the files were saved: once for all, or once per file in their order [the time in a file's name, "
    "2026-11-01T00-00-00Z.json; else the latest instant in it].",
)
@click.option("--partial", "is_partial", is_flag=True, help="The files hold a selection: what a later one lacks goes on.")
@click.option("--namespace", "namespaces", multiple=True, help="Live: only this namespace; may be repeated [all].")
@click.option("--kubeconfig", type=command.FILES, help="Live: as for kubectl.")
@click.option("--context", help="Live: as for kubectl.")
@click.option(
    "--api-url", envvar="GPU_NET_KUBERNETES_URL", help="Live: an address, such as kubectl proxy's http://127.0.0.1:8001."
)
@click.option("--gpu-resource", "own_resources", multiple=True, help="A resource that is a whole GPU under a name of your own.")
@click.option("--all-pods", is_flag=True, help="Land pods that ask for no GPU too.")
@command.collector_options
def kubernetes(
    files: tuple[Path, ...],
    times: tuple[datetime, ...],
    is_partial: bool,
    namespaces: tuple[str, ...],
    kubeconfig: Path | None,
    context: str | None,
    api_url: str | None,
    own_resources: tuple[str, ...],
    all_pods: bool,
    cluster: str | None,
    as_json: bool,
    strict: bool,
) -> None:
    """Land pods, nodes and GPUs: from the API server, or from saved `kubectl get pods,nodes -A -o json` (or yaml)."""
    cluster = command.require_cluster(cluster)
    if files and (namespaces or kubeconfig or context):
        raise click.UsageError("--namespace, --kubeconfig and --context are for the live command; files are read whole")
    if not files and (times or is_partial):
        raise click.UsageError("--at and --partial are for saved files; the API server is read now")
    if len(times) > 1 and len(times) != len(files):
        raise click.UsageError(f"{len(times)} times for {len(files)} files; give --at once, or once for each in their order")
    with command.source(SOURCE, cluster=cluster, inputs=files):
        own = frozenset(own_resources)
        if files:
            dated = [
                (path.name, read_file(path), times[position if len(times) > 1 else 0] if times else time_in_name(path.name))
                for position, path in enumerate(files)
            ]
            outcome = collect_files(
                dated, cluster=cluster, own_resources=own, all_pods=all_pods, is_partial=is_partial, landing=command.landing()
            )
        else:
            client = KubernetesClient(find_server(api_url, kubeconfig, context), namespaces)
            outcome = collect_live(
                client,
                cluster=cluster,
                now=command.utc_now().replace(microsecond=0),
                own_resources=own,
                all_pods=all_pods,
                landing=command.landing(),
            )
        command.report(outcome, as_json=as_json, strict=strict)
