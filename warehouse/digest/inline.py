"""The style of mails, written into their elements: mail clients drop style sheets.

What stays a sheet are the colours of clients that are dark. Nothing is loaded from anywhere.
"""

from __future__ import annotations

from importlib import resources

import css_inline


def inline_style(html: str) -> str:
    """A mail's HTML with the rules of `digest.css` in its elements and the dark colours in its head."""
    inliner = css_inline.CSSInliner(load_remote_stylesheets=False, extra_css=_sheet("digest.css"))
    styled = inliner.inline(html)
    return styled.replace("</head>", f"<style>\n{_sheet('dark.css')}</style>\n</head>", 1)


def _sheet(name: str) -> str:
    return (resources.files("warehouse.digest") / "templates" / name).read_text()
