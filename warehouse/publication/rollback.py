"""`python -m warehouse rollback [VERSION]`: show readers an older version again, in one step; later ones stay where they are.

published/rollbacks.json lists what was rolled back: when, from which version to which, which versions readers no longer see, and
the builds that must not come back by themselves. `publish` leaves such a build alone until there is a newer one, or `--force`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import click
import duckdb

from warehouse.atomic import replaced
from warehouse.database import WarehouseLockedError, connect, locked
from warehouse.home import Home
from warehouse.publication import publications
from warehouse.publication.publications import Manifest, Version
from warehouse.publication.tables import contents_of, published_tables
from warehouse.verdict import last_build

RECORD = "rollbacks.json"


class RollbackError(Exception):
    """Readers cannot be shown that version; they keep the one they have."""


@dataclass(frozen=True)
class Rollback:
    """One rollback. `withdrawn` are the versions newer than `to_version`; `builds` what is not published again by itself."""

    at: str
    from_version: str
    to_version: str
    withdrawn: tuple[str, ...]
    builds: tuple[str, ...]


def read_rollbacks(published: Path) -> list[Rollback]:
    """Every rollback on record, oldest first; not one that was killed before readers saw it."""
    entries = _read(published)
    return entries[:-1] if _is_unfinished(published, entries) else entries


def forget_unfinished(published: Path) -> None:
    """Take a rollback off the record that was killed before readers saw it. Only for the holder of the warehouse's lock."""
    entries = _read(published)
    if _is_unfinished(published, entries):
        _write(published, entries[:-1])


def _read(published: Path) -> list[Rollback]:
    try:
        records = json.loads((published / RECORD).read_text())
    except FileNotFoundError:
        return []
    return [Rollback(**record | {name: tuple(record[name]) for name in ("withdrawn", "builds")}) for record in records]


def _is_unfinished(published: Path, entries: Sequence[Rollback]) -> bool:
    """Whether readers still see what the last rollback was to lead away from."""
    current = publications.current_version(published)
    return bool(entries) and current is not None and current.name == entries[-1].from_version


def withdrawn_versions(published: Path) -> set[str]:
    """The versions that were taken back and not shown again."""
    found: set[str] = set()
    for rollback in read_rollbacks(published):
        found |= set(rollback.withdrawn)
        found.discard(rollback.to_version)
    current = publications.current_version(published)
    return found - {current.name} if current else found


def rollback_in_force(published: Path) -> Rollback | None:
    """The last rollback, where nothing was published since."""
    current = publications.current_version(published)
    entries = read_rollbacks(published)
    return entries[-1] if entries and current and entries[-1].to_version == current.name else None


def roll_back(home: Home, name: str | None = None) -> Rollback:
    """Point readers at the version `name`, or at the newest one before the current that was not taken back itself.

    Raises RollbackError, WarehouseLockedError, duckdb.Error; readers keep what they have.
    """
    home.create()
    with locked(home):
        publications.sweep(home.published)
        current = publications.current_version(home.published)
        if current is None:
            raise RollbackError("nothing is published yet, so that there is nothing to go back to")
        target = _target(home.published, current, name)
        _check_is_whole(target)
        withdrawn = [version for version in publications.versions(home.published) if version.number > target.number]
        entry = Rollback(
            at=datetime.now(UTC).replace(tzinfo=None).isoformat(),
            from_version=current.name,
            to_version=target.name,
            withdrawn=tuple(version.name for version in withdrawn),
            builds=tuple(dict.fromkeys([*(version.manifest.build_id for version in withdrawn), *_last_build_id(home, target)])),
        )
        # before the link: a rollback that is killed in between is none, and is forgotten
        _write(home.published, [*read_rollbacks(home.published), entry])
        publications.release(target)
        return entry


def _target(published: Path, current: Version, name: str | None) -> Version:
    every = publications.versions(published)
    names = ", ".join(version.name for version in every)
    if name is None:
        taken_back = withdrawn_versions(published)
        older = [version for version in every if version.number < current.number and version.name not in taken_back]
        if not older:
            raise RollbackError(f"there is no version before {current.name}; versions kept: {names}")
        return older[-1]
    wanted = publications.find(published, name)
    if wanted is None:
        raise RollbackError(f"there is no version {name!r}; versions kept: {names}")
    if wanted.name == current.name:
        raise RollbackError(f"readers see {wanted.name} already")
    return wanted


def _check_is_whole(version: Version) -> None:
    """Read the version as a reader would: every table holds what its manifest says, where hashes can be compared."""
    try:
        manifest: Manifest = version.manifest
        with connect(version.database, read_only=True) as connection:
            catalog = connection.execute("select current_database()").fetchall()[0][0]
            tables = {table.name: table for table in published_tables(connection, catalog)}
            missing = manifest.contents.keys() - tables.keys()
            is_comparable = manifest.duckdb_version == duckdb.__version__
            differing = [
                name
                for name, contents in manifest.contents.items()
                if name in tables and is_comparable and contents_of(connection, catalog, tables[name]) != contents
            ]
    except (OSError, ValueError, KeyError, duckdb.Error) as error:
        raise RollbackError(f"{version.name} cannot be read: {error}; choose another version") from error
    if missing or differing:
        names = ", ".join(sorted([*missing, *differing])[:5])
        raise RollbackError(f"{version.name} does not hold what was published as it ({names}); choose another version")


def _last_build_id(home: Home, target: Version) -> Sequence[str]:
    """The last build, published or not: it stands for what readers are to be spared. Not where it is what they go back to."""
    if not home.build_database.exists():
        return []
    with connect(home.build_database, read_only=True) as connection:
        build = last_build(connection)
    return [build.build_id] if build and build.build_id != target.manifest.build_id else []


def _write(published: Path, entries: Sequence[Rollback]) -> None:
    with replaced(published / RECORD) as temporary:
        temporary.write_text(json.dumps([asdict(entry) for entry in entries], indent=2) + "\n")
        temporary.chmod(0o644)


@click.command("rollback")
@click.argument("version", required=False)
def rollback_command(version: str | None) -> None:
    """Show readers an older version again: VERSION, or the one before the current.

    Later versions stay; the next publication takes the next number. The build that was taken back is not published again until
    there is a newer one, or `publish --force`. The same command with a later version goes forward again.
    """
    home = Home.from_environment()
    try:
        rollback = roll_back(home, version)
    except (RollbackError, WarehouseLockedError, duckdb.Error, OSError) as error:
        click.echo(f"rollback failed, readers keep what they have: {error}", err=True)
        sys.exit(1)
    word = "rolled back" if rollback.withdrawn else "gone forward"
    click.echo(f"{word}: readers see {rollback.to_version}, they saw {rollback.from_version}")
    if rollback.builds:
        builds = ", ".join(rollback.builds)
        click.echo(f"not published again by itself: {builds}; a newer build is, so correct what was wrong first")
    click.echo(f"what moved: python -m warehouse diff {rollback.to_version} {rollback.from_version}")
