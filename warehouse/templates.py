"""How every page and mail of ours is rendered: names in them are data, so markup escapes them, and a name nobody gave fails."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined


def environment(package: str) -> Environment:
    """Jinja over the `templates` of a package; a template of text (`….txt.j2`) has no markup to protect."""
    return Environment(
        loader=PackageLoader(package),
        autoescape=lambda name: name is None or not name.endswith(".txt.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
