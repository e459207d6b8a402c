"""Tell which provider's bill a header is of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from collectors.billing.azure import AZURE
from collectors.billing.cur import CUR
from collectors.billing.focus import FOCUS
from collectors.billing.gcp import GCP
from collectors.billing.mapping import Field, Format
from collectors.billing.oci import OCI
from collectors.command import SourceFailedError

FORMATS: Mapping[str, Format] = {format.name: format for format in (FOCUS, CUR, AZURE, GCP, OCI)}


@dataclass(frozen=True)
class Wish:
    """What a person says of a bill: the name of its format, and landing columns that it may lack (the currency)."""

    format: str | None = None
    given: Mapping[str, str] = field(default_factory=dict)


NOTHING = Wish()


def recognise(header: Sequence[str], file: str, wish: Wish) -> Format:
    """The format that a header is of, the one with the most columns in it where several fit.

    Raises SourceFailedError, with the columns that it lacks for the format wished for, or else for the nearest.
    """
    candidates = [FORMATS[wish.format]] if wish.format else list(FORMATS.values())
    lacking = {format.name: format.lacking(header, wish.given) for format in candidates}
    fitting = [format for format in candidates if not lacking[format.name]]
    if fitting:
        return max(fitting, key=lambda format: len(format.known(header)))

    def nearness(format: Format) -> tuple[float, int]:
        return 1 - len(lacking[format.name]) / len(format.needs), len(format.known(header))

    nearest = max(candidates, key=nearness)
    known = len(nearest.known(header))
    names = ", ".join(lacking[nearest.name])
    by_hand = "or map it to the landing shape and use `python -m collectors import billing_lines`"
    if not any(format.known(header) for format in candidates) and not wish.format:
        titles = ", ".join(format.title for format in FORMATS.values())
        raise SourceFailedError(
            f"{file}: no bill of a known format ({titles}): no column of it is one of theirs; for FOCUS it lacks "
            f"{', '.join(lacking[FOCUS.name])}; {FOCUS.remedy}, {by_hand}"
        )
    is_currency_alone = lacking[nearest.name] == [next(f.names[0] for f in nearest.fields if f.column == "billing_currency")]
    raise SourceFailedError(
        f"{file}: no {nearest.title}{'' if wish.format else ', which is the nearest of the known formats'}: it lacks {names} "
        f"(it has {known} of the columns that are read); {nearest.remedy}, "
        f"{'name its currency with --currency, ' if is_currency_alone else ''}{by_hand}"
    )


def mapping_table(format: Format) -> str:
    """How a format's columns become those of FOCUS, one line each, as a Markdown table."""
    needed = {name for group in format.needs for name in group.split()}

    def names(field: Field) -> str:
        return ", ".join(f"`{name}`{' *' if name in needed else ''}" for name in field.names) or "-"

    fields = [*format.fields, *([format.second.amount] if format.second else [])]
    second = len(fields) if format.second is None else len(fields) - 1
    rows = [
        f"| {field.column}{' (of a second line)' if number >= second else ''} | {names(field)} | {field.how} |"
        for number, field in enumerate(fields)
    ]
    head = f"{format.title}; of columns marked * one of each kind must be there\n\n| FOCUS | read from | how |\n|---|---|---|"
    return "\n".join([head, *rows])
