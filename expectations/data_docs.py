"""The verdict as a page to read: `build/data_docs/index.html`, written by the gate with every verdict.

Great Expectations' own Data Docs take their style sheets, scripts and fonts from fifteen addresses on the network, and do not
show the sentence that each check carries; this page needs nothing but itself, and says what the verdict says. It is private to
the warehouse's owner, since what checks have seen may name anything that was landed.
"""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from warehouse.atomic import replaced
from warehouse.digest.words import clean
from warehouse.home import Home
from warehouse.verdict import Check, Verdict

#: what a check saw or says is cut at this many characters
LONGEST = 600


def page_path(home: Home) -> Path:
    return home.build / "data_docs" / "index.html"


def write(home: Home, verdict: Verdict) -> Path:
    """Write the page of a verdict, in full or not at all; its path."""
    path = page_path(home)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced(path) as temporary:
        temporary.write_text(render(verdict), encoding="utf-8")
    return path


def render(verdict: Verdict) -> str:
    """The page as HTML; whatever the data named is escaped."""
    tables: dict[str, list[Check]] = {}
    for check in sorted(verdict.checks, key=lambda check: check.table):
        tables.setdefault(check.table, []).append(check)
    # critical before warning, as the alphabet has it
    failed = sorted((check for check in verdict.checks if not check.success), key=lambda check: (check.severity, check.table))
    environment = Environment(
        loader=PackageLoader("expectations"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["shown"] = lambda text: clean(str(text), LONGEST)
    return environment.get_template("data_docs.html.j2").render(verdict=verdict, tables=tables, failed=failed)
