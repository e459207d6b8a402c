"""The captured systems, each a cluster of its own, and how each is landed: by its collector, or by an adapter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from tests.real.adapters import clustercockpit

#: a scrape does not say when it was made. One card was scraped on six occasions: it was not in six clusters at once
FIRST_SCRAPE_AT = datetime(2023, 1, 10, 12, 0)
BETWEEN_SCRAPES = timedelta(days=1)

SLURM_LIVE = "slurm-22.05-live"
FAU = "fau-alex"
FOX_DAY, FOX_2025, FOX_2024 = "fox-2025-05-03", "fox-2025-09-26", "fox-2024-11-13"

#: clusters stand side by side in a table: file → a name that is short enough
SHORT_NAMES = {
    "a100-idle-mig-disabled.1": "a100-idle-1",
    "a100-idle-mig-disabled.2": "a100-idle-2",
    "a100-mig-enabled-no-instances": "a100-mig-empty",
    "mig-1g5gb-active": "mig-1g-active",
    "mig-1g5gb-idle-allocated": "mig-1g-idle",
    "mig-2x1g5gb-1x2g10gb": "mig-three",
    "mig-4-active": "mig-four",
    "t4-pod-labels-1-workload": "t4-pod-labels",
    "metrics": "datadog-t4",
}


@dataclass(frozen=True)
class System:
    """One capture; `land` is called with the folder of captures and returns the collector's exit code."""

    name: str
    land: Callable[[Path], int]


def systems(real_data: Path) -> list[System]:
    """All systems of the folder, in the order in which they are landed."""
    return [
        System(FAU, _land_fau),
        System(FOX_DAY, _slurm(FOX_DAY, "fox-slurm/sacct-sonar-csv-2025-05-03.csv", "--time-zone", "Europe/Oslo")),
        System(FOX_2025, _slurm(FOX_2025, "fox-slurm/sacct-parsable-2025-09-26.txt", "--time-zone", "Europe/Oslo")),
        System(FOX_2024, _slurm(FOX_2024, "fox-slurm/sacct-parsable-2024-11-13.txt", "--time-zone", "Europe/Oslo")),
        System(SLURM_LIVE, _slurm(SLURM_LIVE, "slurm-22.05-live/sacct_parsable_all_steps.txt")),
        *(System(cluster, _scrape(cluster, path, at)) for cluster, path, at in scrapes(real_data)),
        System("focus-1.0-sample", lambda folder: collect("billing", str(folder / "focus-1.0-sample" / "focus_sample.csv"))),
    ]


def scrapes(real_data: Path) -> list[tuple[str, Path, datetime]]:
    """Cluster, file and instant of every dcgm-exporter scrape."""
    files = [*sorted((real_data / "dcgm-exporter-runai").glob("*.prom")), real_data / "dcgm-exporter-datadog-t4" / "metrics.prom"]
    return [
        (SHORT_NAMES.get(path.stem, path.stem), path, FIRST_SCRAPE_AT + number * BETWEEN_SCRAPES)
        for number, path in enumerate(files)
    ]


def collect(*arguments: str) -> int:
    """Call `python -m collectors …` in this process; its exit code."""
    from collectors.__main__ import main

    try:
        main.main(list(arguments), prog_name="python -m collectors", standalone_mode=False)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def _slurm(cluster: str, file: str, *options: str) -> Callable[[Path], int]:
    return lambda folder: collect("slurm", "--cluster", cluster, "--sacct-file", str(folder / file), *options)


def _scrape(cluster: str, path: Path, at: datetime) -> Callable[[Path], int]:
    return lambda _: collect("dcgm", "--cluster", cluster, "--at", f"{at.isoformat()}Z", str(path))


def _land_fau(folder: Path) -> int:
    from collectors.command import QUARANTINED, landing

    jobs, description = folder / "fau-alex-jobs" / "jobs_alex.csv", folder / "fau-alex-jobs" / "cluster_alex.json"
    rows = clustercockpit.to_rows(clustercockpit.read_jobs(jobs), clustercockpit.read_cards(description), FAU)
    outcome = landing().land(clustercockpit.SOURCE, rows.frames(), cluster=FAU, inputs=[jobs.name, description.name])
    print(outcome.summary())
    return QUARANTINED if outcome.rows_quarantined else 0
