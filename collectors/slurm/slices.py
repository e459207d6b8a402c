"""Which of a job's GPUs are MIG instances: by the type's name, or by a rule, because Slurm's records do not say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from collectors.slurm.gres import card_model, mig_profile
from collectors.slurm.tres import Gpus


@dataclass(frozen=True)
class MigRules:
    """Partition or GRES type → MIG profile, where `gres/gpu=1` is an instance and the type's name does not tell.

    A rule for a type (`a100.MIG.20gb`) comes before the name, the name (`a100_1g.5gb`) before a rule for a partition.
    """

    profiles: Mapping[str, str] = field(default_factory=dict)

    def profile(self, kind: str | None, partition: str) -> str | None:
        """The profile of a GPU of this type in this partition; None for a whole card."""
        return self.profiles.get(kind or "") or mig_profile(kind) or self.profiles.get(partition)


@dataclass(frozen=True)
class Kind:
    """GPUs of one kind that a job holds: instances of `profile`, or whole cards (None)."""

    profile: str | None
    count: float


def kinds_of(gpus: Gpus, partition: str, rules: MigRules) -> tuple[Kind, ...]:
    """The kinds of a job's GPUs, those of one profile added up."""
    counts: dict[str | None, float] = {}
    for kind, count in gpus.kinds:
        profile = rules.profile(kind, partition)
        counts[profile] = counts.get(profile, 0) + count
    return tuple(Kind(profile, count) for profile, count in counts.items())


def only_profile(kinds: Sequence[Kind]) -> str | None:
    """The profile that all of a job's GPUs have; None for whole cards and for a mixture."""
    return kinds[0].profile if len(kinds) == 1 else None


def only_model(gpus: Gpus) -> str | None:
    """The card's model, if the types name exactly one: `a100` for `a100_1g.5gb`, none for `1g.10gb`."""
    models = {card_model(kind) for kind, _ in gpus.kinds if kind}
    return next(iter(models)) if len(models) == 1 else None


def parse_rules(texts: Sequence[str]) -> MigRules:
    """Rules written `NAME=PROFILE`; ValueError where one is no rule."""
    profiles: dict[str, str] = {}
    for text in texts:
        name, _, profile = text.partition("=")
        if not name.strip() or mig_profile(profile) != profile.strip().lower():
            raise ValueError(f"{text!r} is no rule; write PARTITION=PROFILE, such as mig=1g.5gb")
        profiles[name.strip()] = profile.strip().lower()
    return MigRules(profiles)
