"""`python -m collectors incoming`: land the files that others have dropped into `$GPU_NET_HOME/incoming`.

    incoming/<landing table>/[<cluster>/]FILE    rows in the landing shape, as `import` reads them
    incoming/<source>/<cluster>/FILE             what the source's own tool saved: `NATIVE` below names the sources
    incoming/billing/FILE                        bills

Scrapes (`dcgm`, `inference`) carry their time in the name: 2026-11-01T00-00-00Z.prom. What `nvidia-smi` printed lies in a
folder that is called by the node: incoming/nvidia-smi/<cluster>/<node>/FILE.
Any other folder is named, and fails the command; what lies beside it lands all the same.
A file that landed moves to `incoming/done/` under the same path. One that could not be read stays where it is, is tried
again and keeps the command failing until somebody looks; so does a link, which is not followed. Names that begin with a dot or
end in `.tmp` or `.part` are left alone: write under such a name and rename when the file is whole.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from collectors.command import FAILED, LANDED, QUARANTINED, WRONG_USAGE
from warehouse.home import Home
from warehouse.landing.shape import TABLES

DONE = "done"
#: folder → the collector's arguments before the files; a folder of any landing table goes to `import`
NATIVE = {
    "slurm": ("slurm", "--sacct-file"),
    "kubernetes": ("kubernetes",),
    "sonar": ("sonar",),
    "dcgm": ("dcgm",),
    "nvidia-smi": ("nvidia-smi",),
    "inference": ("inference",),
    "requests": ("requests",),
    "billing": ("billing",),
}
KINDS = ("tables", *NATIVE)
#: sources whose text does not name its node: a folder below the cluster's does
BY_NODE = ("nvidia-smi",)
#: sources whose files need each other: counters, and states that a later file ends
TOGETHER = ("kubernetes", "sonar", "dcgm", "nvidia-smi", "inference")


@dataclass(frozen=True)
class Delivery:
    """Files that one call of a collector takes; `arguments` are the call's, without the files."""

    kind: str
    arguments: tuple[str, ...]
    files: tuple[Path, ...]


def deliveries(home: Home, kinds: Sequence[str] = KINDS) -> list[Delivery]:
    """What waits in `incoming`, by folder; files of one cluster that need each other together."""
    found: list[Delivery] = []
    for folder in sorted(path for path in _incoming(home).glob("*") if path.is_dir() and not path.is_symlink()):
        kind = _kind_of(folder, home)
        if kind not in kinds or _is_unknown(folder) or folder.name == DONE:
            continue
        for cluster, files in _by_cluster(folder):
            arguments = NATIVE.get(folder.name, ("import", folder.name))
            options = ("--cluster", cluster) if cluster else ()
            call = (arguments[0], *options, *arguments[1:])
            for node, group in _groups(kind, folder / (cluster or ""), files):
                found.append(Delivery(kind, (*call, "--node", node) if node else call, group))
    return found


def refused(home: Home, kinds: Sequence[str] = KINDS) -> dict[Path, str]:
    """What lies in `incoming` and is not read, with the reason and the remedy, by path; of no known folder: with the tables.

    Folders named like no table and no source, files in no folder, and links: whoever may drop a file could have any file of
    this account read, and moved away, by one.
    """
    found = {}
    for path in sorted(_incoming(home).rglob("*")):
        if _kind_of(path, home) not in kinds:
            continue
        if path.is_symlink():
            found[path] = "a link, which may lead anywhere, is not read; put the file itself there"
        elif path.parent == _incoming(home) and _is_unknown(path):
            what = "no landing table and no source of that name" if path.is_dir() else "in no folder that says what it is"
            found[path] = f"{what}; move it into {path.parent}/ and one of {_names()}"
    return found


def land(delivery: Delivery, home: Home) -> int:
    """Call the collector and move the files away where they landed; its exit code."""
    from collectors.__main__ import main

    try:
        main.main([*delivery.arguments, *map(str, delivery.files)], prog_name="python -m collectors", standalone_mode=False)
        code = LANDED
    except click.ClickException as error:
        click.echo(f"{delivery.files[0]}: {error.format_message()}", err=True)
        code = WRONG_USAGE
    except SystemExit as end:
        code = int(end.code or 0)
    if code in (LANDED, QUARANTINED):
        for file in delivery.files:
            target = _incoming(home) / DONE / file.relative_to(_incoming(home))
            if not target.parent.resolve().is_relative_to(_incoming(home).resolve()):
                click.echo(f"{target.parent} leads out of {_incoming(home)}; {file} stays where it is", err=True)
                return FAILED
            target.parent.mkdir(parents=True, exist_ok=True)
            file.replace(target)
    return code


def _incoming(home: Home) -> Path:
    return home.root / "incoming"


def _kind_of(path: Path, home: Home) -> str:
    top = path.relative_to(_incoming(home)).parts[0]
    return top if top in NATIVE else "tables"


def _is_unknown(path: Path) -> bool:
    if path.is_dir():
        return path.name not in (*NATIVE, *TABLES, DONE) and not path.name.startswith(".")
    return not _is_unfinished(path)


def _by_cluster(folder: Path) -> Iterator[tuple[str | None, list[Path]]]:
    """Files directly in the folder (None), then those of each subfolder, which names the cluster; sorted."""
    below = sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())
    places = [(None, folder), *((path.name, path) for path in below)]
    for cluster, place in places:
        files = place.glob("*") if cluster is None else place.rglob("*")
        whole = sorted(path for path in files if path.is_file() and not path.is_symlink() and not _is_unfinished(path))
        if whole:
            yield cluster, whole


def _groups(kind: str, folder: Path, files: Sequence[Path]) -> Iterator[tuple[str | None, tuple[Path, ...]]]:
    """Files that one call takes, with their node where a folder below `folder` names it."""
    if kind not in TOGETHER:
        yield from ((None, (file,)) for file in files)
        return
    by_node: dict[str | None, list[Path]] = {}
    for file in files:
        node = file.relative_to(folder).parts[0] if kind in BY_NODE and file.parent != folder else None
        by_node.setdefault(node, []).append(file)
    yield from ((node, tuple(group)) for node, group in by_node.items())


def _is_unfinished(path: Path) -> bool:
    return path.name.startswith(".") or path.suffix in (".tmp", ".part")


def _names() -> str:
    return ", ".join([*NATIVE, *sorted(TABLES)])


@click.command("incoming")
@click.argument("kinds", nargs=-1, type=click.Choice(KINDS))
def incoming(kinds: tuple[str, ...]) -> None:
    """Land the files dropped into GPU_NET_HOME/incoming (all KINDS, or those named)."""
    home = Home.from_environment().create()
    codes = {land(delivery, home) for delivery in deliveries(home, kinds or KINDS)}
    for path, reason in refused(home, kinds or KINDS).items():
        click.echo(f"{path}: {reason}", err=True)
        codes.add(FAILED)
    if not codes:
        click.echo(f"incoming: nothing waits in {_incoming(home)}")
    failed = codes - {LANDED, QUARANTINED}
    sys.exit(FAILED if failed else QUARANTINED if QUARANTINED in codes else LANDED)
