"""The lines that `init` adds: a price to fill in per GPU model, a name to confirm per workload."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from warehouse.init.files import ConfigFile, Draft
from warehouse.init.seen import UNKNOWN_MODEL, Card, Rule, Seen, SeenModel, SeenWorkload

#: rules drafted by one call, the biggest first: more than that nobody reads in one go
MOST_RULES = 50
#: a pattern that lists names is none if it lists more
MOST_NAMES = 20
#: what a controller appends to its own name: ordinals, the hashes of a ReplicaSet and of its pods, a CronJob's time
_SUFFIXES = ("(-|$)", "-[0-9]+$", "-[0-9a-z]{5}$", "-[0-9a-z]+-[0-9a-z]{5}$", "-[a-z]+-[0-9]+$", "$")


def draft_rate_cards(seen: Seen, cards: Sequence[Card], currency: str | None) -> list[Draft]:
    """A line without a price for each GPU model of a cluster that neither a bill nor one of `cards` prices."""
    return [_rate_card(model, currency) for model in seen.models if not any(card.prices(model) for card in cards)]


def _rate_card(model: SeenModel, currency: str | None) -> Draft:
    count = _count(model.count, "GPU") if model.count else "GPUs that only the scheduler knows"
    comment = f"{count} in {_shown(model.cluster)}"
    if model.gpu_model == UNKNOWN_MODEL:
        asked = f"; jobs asked for {' and '.join(map(_shown, model.asked_for))}" if model.asked_for else ""
        comment += f", model not told{asked}: one price for all of them, until `collectors nvml` or dcgm tells the models"
    cells = {
        "gpu_model": model.gpu_model,
        "provider": model.provider or "",
        "cluster": model.cluster,
        "currency": currency or "",
        "valid_from": f"{model.first_seen_at:%Y-%m-%d}" if model.first_seen_at else "1970-01-01",
    }
    return Draft({name: _shown(cell) for name, cell in cells.items()}, comment)


def draft_rules(seen: Seen, first_priority: int) -> Iterator[Draft]:
    """A line for each workload that no rule names, biggest first, at most `MOST_RULES`."""
    priority = first_priority
    for workload in seen.workloads[:MOST_RULES]:
        last = f", last {workload.last_seen_at:%Y-%m-%d}" if workload.last_seen_at else ""
        joined = f"; one name for {workload.joined} owners" if workload.joined > 1 else ""
        hours = f"about {workload.gpu_hours:.1f}" if workload.gpu_hours >= 0.1 else "less than 0.1"
        comment = f"{hours} GPU-hours in {_count(workload.runs, 'run')}{last}{joined}"
        pattern = name_pattern(workload)
        if pattern is None:
            yield Draft({}, f"{comment}: {_shown(workload.workload)} in {_shown(workload.namespace)}; no pattern tells its names")
            continue
        cells = {
            "priority": str(priority),
            "cluster": workload.cluster,
            "namespace": workload.namespace,
            "name_regex": pattern,
            "workload": workload.workload,
            "kind": workload.kind,
        }
        yield Draft({name: _shown(cell) for name, cell in cells.items()}, comment)
        priority += 10


def name_pattern(workload: SeenWorkload) -> str | None:
    """A regular expression found in all the workload's names and in none of its neighbours'; None where there is none.

    The widest that does it is taken, so that it finds the runs of tomorrow as well.
    """
    names, others = workload.names, workload.other_names
    for pattern in _patterns(workload):
        compiled = re.compile(pattern)
        if all(compiled.search(name) for name in names) and not any(compiled.search(name) for name in others):
            return pattern
    return None


def _patterns(workload: SeenWorkload) -> Iterator[str]:
    masks = {_mask(name) for name in workload.names}
    if workload.owner_name:
        owner = _of_mask(_mask(workload.owner_name)) if workload.joined > 1 else _escaped(workload.owner_name)
        yield from (f"^{owner}{suffix}" for suffix in _SUFFIXES)
    if len(masks) == 1:
        yield f"^{_of_mask(masks.pop())}$"
    elif len(masks) <= MOST_NAMES:
        yield f"^({'|'.join(_of_mask(mask) for mask in sorted(masks))})$"
    if len(workload.names) <= MOST_NAMES:
        yield f"^({'|'.join(_escaped(name) for name in sorted(workload.names))})$"


def _mask(name: str) -> str:
    """The name with each run of digits written `#`; one of its own becomes a run of digits as well."""
    return re.sub("[0-9]+|#+", "#", name)


def _of_mask(mask: str) -> str:
    return "[0-9]+".join(_escaped(part) for part in mask.split("#"))


def _escaped(text: str) -> str:
    """The text as a pattern that a person can read: only what means something in RE2 is escaped."""
    return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", text)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _shown(text: str) -> str:
    """A name on one line: names are data, and a line break in one must not begin a row."""
    return re.sub(r"[\x00-\x1f\x7f\x85\u2028\u2029]+", " ", text)


def cards_of(file: ConfigFile | None) -> list[Card]:
    """The rate cards that a file names, priced or not, switched off or not."""
    rows = (*file.rows, *file.switched_off) if file else ()
    return [
        Card(model, row.cells.get("provider"), row.cells.get("cluster")) for row in rows if (model := row.cells.get("gpu_model"))
    ]


def rules_of(file: ConfigFile | None) -> list[Rule]:
    """The rules that a file has, switched off or not."""
    rows = [row for row in (*file.rows, *file.switched_off) if (row.cells.get("priority") or "").isdigit()] if file else []
    return [Rule(row.cells.get("cluster"), row.cells.get("namespace"), row.cells.get("name_regex")) for row in rows]


def next_priority(file: ConfigFile | None) -> int:
    """Tens behind every priority of the file, so that a new line is tried after those that a person wrote."""
    priorities: Collection[int] = [
        int(text) for row in (file.rows if file else ()) if (text := row.cells.get("priority") or "").isdigit()
    ]
    return max(priorities, default=0) // 10 * 10 + 10
