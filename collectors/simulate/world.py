"""A plan from its few parameters."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from collectors.simulate.hardware import make_fleet
from collectors.simulate.money import billed_until, prices_of
from collectors.simulate.plan import Plan
from collectors.simulate.serving_plan import plan_serving
from collectors.simulate.slurm_plan import plan_slurm
from collectors.simulate.spot_plan import plan_spot
from collectors.simulate.window import Window

#: renewed whenever the same parameters make another plan, so that the new one lands beside the old
VERSION = 2


@dataclass(frozen=True)
class Parameters:
    """`until_at` is a whole hour; `hours` before it the plan begins."""

    gpus: int
    hours: int
    seed: int
    until_at: datetime

    @property
    def window(self) -> Window:
        return Window(self.until_at - timedelta(hours=self.hours), self.hours * 60)

    @property
    def name(self) -> str:
        return f"gpus-{self.gpus}-hours-{self.hours}-seed-{self.seed}-until-{self.until_at:%Y-%m-%dT%H-%M-%SZ}"


def make_plan(parameters: Parameters) -> Plan:
    """The plan: the same for the same parameters, whatever part of it is written in whatever form."""
    window, seed = parameters.window, parameters.seed
    fleet = make_fleet(parameters.gpus, seed)
    slurm, serving, spot = plan_slurm(fleet, window, seed), plan_serving(fleet, window, seed), plan_spot(fleet, window, seed)
    return Plan(
        window=window,
        seed=seed,
        fleet=fleet,
        runs=[*slurm.runs, *serving.runs, *spot.runs],
        uses=[*slurm.uses, *serving.uses, *spot.uses],
        troubles=[*slurm.troubles, *serving.troubles, *spot.troubles],
        waiting=slurm.waiting,
        services=serving.services,
        rules=serving.rules,
        checkpoints=spot.checkpoints,
        prices=prices_of(fleet, window),
        billed_until=billed_until(window),
    )
