"""Lay an edition out: HTML for mail clients, text that stands alone, and the pictures that both describe.

Style is written into the elements (`inline`). Nothing is loaded from anywhere.
"""

from __future__ import annotations

import base64
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from warehouse.digest import page as pages
from warehouse.digest import picture
from warehouse.digest.editions import Edition
from warehouse.digest.figures import Figures
from warehouse.digest.inline import inline_style
from warehouse.digest.words import isolated
from warehouse.templates import environment

TEXT_WIDTH = 76
TREND, WATERFALL = "trend", "waterfall"


@dataclass(frozen=True)
class Digest:
    """An edition of a day. `html` names its pictures `cid:<name>`; `pictures` maps name → PNG.

    `publication_id` is the version that its figures are of.
    """

    edition: Edition
    usage_date: date
    mail_date: date
    subject: str
    html: str
    text: str
    pictures: Mapping[str, bytes]
    publication_id: str

    @property
    def html_alone(self) -> str:
        """The HTML with its pictures inside, for a browser."""
        html = self.html
        for name, png in self.pictures.items():
            html = html.replace(f'src="cid:{name}"', f'src="data:image/png;base64,{base64.b64encode(png).decode()}"')
        return html


def render(figures: Figures) -> Digest:
    """Lay out what the figures say. The same figures give the same bytes."""
    page = pages.write(figures)
    pictures = {}
    if page.trend:
        pictures[TREND] = picture.draw_trend(figures.days)
    if page.waterfall:
        pictures[WATERFALL] = picture.draw_waterfall(page.waterfall)
    sources = {f"{name}_source": f"cid:{name}" if name in pictures else "" for name in (TREND, WATERFALL)}
    html = _ENVIRONMENT.get_template("digest.html.j2").render(page=page, trend_days=len(figures.days), **sources)
    text = _ENVIRONMENT.get_template("digest.txt.j2").render(page=page)
    return Digest(
        *(
            figures.edition,
            figures.usage_date,
            figures.mail_date,
            page.subject,
            inline_style(html),
            text.strip() + "\n",
            pictures,
        ),
        publication_id=figures.publication.publication_id,
    )


def _paragraph(text: str, indent: str = "") -> str:
    """Wrapped to the width of a text mail; a name longer than a line stays in one piece."""
    return textwrap.fill(
        text, TEXT_WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


_ENVIRONMENT = environment("warehouse.digest")
_ENVIRONMENT.filters |= {
    "isolated": isolated,
    "paragraph": _paragraph,
    "capitalize_first": lambda text: text[:1].upper() + text[1:],
    "ljust": str.ljust,
    "rjust": str.rjust,
}
