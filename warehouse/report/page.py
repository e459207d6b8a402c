"""Lay the report out: one HTML file with style, script, charting library and numbers inside.

A content security policy names the two scripts by their hash and forbids every connection: whatever a name may hold, a browser
runs nothing else and asks nobody. The numbers are JSON, gzipped and in base64, in which no name can end the element.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from dataclasses import dataclass
from importlib import resources

from markupsafe import Markup

from warehouse.digest import page as pages
from warehouse.digest.figures import Figures, Publication
from warehouse.report.alerting import Alerts
from warehouse.report.contents import Contents
from warehouse.report.moved import Moved
from warehouse.report.tables import Tables
from warehouse.templates import environment

LIBRARY = "echarts.min.js"


@dataclass(frozen=True)
class Report:
    """What the page is made of; `last_day` is what the mail says of the last whole day, None where there is none yet."""

    publication: Publication
    contents: Contents
    tables: Tables
    alerts: Alerts
    moved: Moved
    last_day: Figures | None
    why_no_day: str = ""


def render(report: Report) -> str:
    """The page as HTML. The same report gives the same text."""
    library, script = _vendored(LIBRARY), _template_text("report.js")
    return _ENVIRONMENT.get_template("report.html.j2").render(
        report=report,
        day=pages.write(report.last_day) if report.last_day else None,
        style=Markup(_template_text("report.css")),
        library=Markup(library),
        script=Markup(script),
        policy="; ".join(
            (
                "default-src 'none'",
                f"script-src {_hash_of(library)} {_hash_of(script)}",
                "style-src 'unsafe-inline'",
                "img-src data:",
                "base-uri 'none'",
                "form-action 'none'",
            )
        ),
        numbers=pack(report.contents),
    )


def pack(contents: Contents) -> str:
    """Numbers as the page carries them; `unpack` is the way back."""
    text = json.dumps(contents, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def unpack(numbers: str) -> Contents:
    contents: Contents = json.loads(gzip.decompress(base64.b64decode(numbers)))
    return contents


def _hash_of(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _vendored(name: str) -> str:
    return (resources.files("warehouse.report") / "vendor" / name).read_text(encoding="utf-8")


def _template_text(name: str) -> str:
    return (resources.files("warehouse.report") / "templates" / name).read_text(encoding="utf-8")


_ENVIRONMENT = environment("warehouse.report")
