"""The captured systems, each a cluster of its own, and how each is landed: by its collector, or by an adapter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from collectors.parsed import Parsed
from tests.real.adapters import clustercockpit, openb, price_lists, servegen

#: a scrape does not say when it was made. One card was scraped on six occasions: it was not in six clusters at once
FIRST_SCRAPE_AT = datetime(2023, 1, 10, 12, 0)
BETWEEN_SCRAPES = timedelta(days=1)

#: a trace or a text that tells totals since an unknown start: what the figures call its beginning and its end
TRACE_BEGIN, TRACE_END = "2025-01-06T11:00:00Z", "2025-01-06T12:00:00Z"

SLURM_LIVE = "slurm-22.05-live"
FAU = "fau-alex"
FOX_SNAPSHOTS = "fox-snapshots"
ML8 = "ml8"
OPENB_PODS = "openb_pod_list_default.csv"
FOX_DAY, FOX_2025, FOX_2024 = "fox-2025-05-03", "fox-2025-09-26", "fox-2024-11-13"

#: `nvidia-smi -L` does not say when it was run: at the first reading beside it
SAVED_AT = {
    "smi-h100": "2026-07-14T08:12:38Z",
    "smi-h100-mig": "2026-07-14T09:00:27Z",
    "smi-h200": "2026-07-03T22:10:46Z",
    "smi-h200-mig": "2026-07-03T22:22:01Z",
    "smi-l40s": "2026-07-03T08:33:38Z",
    "smi-rtx2080s-windows": "2026-06-24T10:17:41Z",
}

#: objects of one moment are one cluster: the same node was split otherwise three hours later
KUBERNETES = {
    "runai-mig-1g": ("pod-mig-1g.5gb", "node-a100-mig-4-instances"),
    "runai-mig-7g": ("pod-mig-7g", "node-a100-mig-7g"),
    "runai-fraction": ("pod-fractional", "pod-fractional-reservation", "node-t4-1-workload"),
}

#: bills in the providers' own formats: the delivery they are called by → file and options
BILLS: dict[str, tuple[str, ...]] = {
    "aws-cur": ("focus-converters/aws-cur-2023-11.csv",),
    "azure-ea": ("focus-converters/azure-ea-2023-09.csv",),
    "oci": ("focus-converters/oci-cost-2023-11.csv",),
    "azure-ea-actual": ("azure-ea-finops-toolkit/EA_ActualCost_Small.csv",),
    "azure-ea-amortized": ("azure-ea-finops-toolkit/EA_AmortizedCost_Small.csv",),
    "opencost-azure": ("opencost/azure-Template.csv", "--currency", "USD"),
}

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
        System(FOX_SNAPSHOTS, _slurm(FOX_SNAPSHOTS, "fox-slurm/slurm-jobs-newfmt-2025-05-02.json")),
        System("fox-nodes", _slurm("fox-nodes", "fox-slurm/sinfo-sonar.json")),
        System("slurm2sql", _slurm("slurm2sql", "slurm2sql/test-data1.csv", "--time-zone", "Europe/Helsinki")),
        System("slurmrestd", _slurm("slurmrestd", "telegraf/slurmrestd/jobs.json")),
        System(ML8, _land_ml8),
        *(System(cluster, _smi(cluster, files)) for cluster, files in smi_captures(real_data)),
        *(System(cluster, _kubernetes(cluster, objects)) for cluster, objects in KUBERNETES.items()),
        System("openb", lambda folder: _adapt("openb", openb.to_rows(folder / "alibaba-openb-2023" / OPENB_PODS, "openb"))),
        System("azure-llm", _requests("azure-llm", "azure-llm-2023/AzureLLMInferenceTrace_*.csv")),
        System("mooncake", _requests("mooncake", "mooncake-fast25/*.jsonl", "--started-at", TRACE_BEGIN)),
        System("litellm", _requests("litellm", "litellm/spend_logs_payload.json")),
        *(System(path.stem, _inference(path)) for path in sorted((real_data / "inference-metrics").glob("*.prom"))),
        *(
            System(path.stem, lambda _, path=path: _adapt(servegen.SOURCE, servegen.to_rows(path, "servegen")))
            for path in sorted((real_data / "servegen").glob("*-trace.csv"))
        ),
        System("price-lists", lambda folder: _adapt(price_lists.SOURCE, price_lists.to_rows(folder))),
        System("focus-1.0-sample", lambda folder: collect("billing", str(folder / "focus-1.0-sample" / "focus_sample.csv"))),
        *(System(name, _bill(name, *file_and_options)) for name, file_and_options in BILLS.items()),
    ]


def scrapes(real_data: Path) -> list[tuple[str, Path, datetime]]:
    """Cluster, file and instant of every dcgm-exporter scrape."""
    files = [*sorted((real_data / "dcgm-exporter-runai").glob("*.prom")), real_data / "dcgm-exporter-datadog-t4" / "metrics.prom"]
    return [
        (SHORT_NAMES.get(path.stem, path.stem), path, FIRST_SCRAPE_AT + number * BETWEEN_SCRAPES)
        for number, path in enumerate(files)
    ]


def smi_captures(real_data: Path) -> Iterator[tuple[str, tuple[Path, ...]]]:
    """Cluster and files of every host whose nvidia-smi or rocm-smi was saved; with MIG, -L tells the layout."""
    sections = real_data / "nvidia-smi-captures" / "sections"
    for listing in sorted(sections.glob("*.list-L.txt")):
        card = listing.name.removesuffix(".list-L.txt")
        yield f"smi-{card}", (*sorted(sections.glob(f"{card}.*.query-gpu.csv")), listing)
    telegraf = real_data / "telegraf"
    for path in (*sorted((telegraf / "nvidia-smi-xml").glob("*.xml")), *sorted((telegraf / "rocm-smi").glob("*.json"))):
        yield f"smi-{path.stem}", (path,)


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


def _smi(cluster: str, files: tuple[Path, ...]) -> Callable[[Path], int]:
    times = [part for path in files for part in ("--at", SAVED_AT.get(cluster, TRACE_END))]
    return lambda _: collect("nvidia-smi", "--cluster", cluster, "--node", "n1", *times, *map(str, files))


def _kubernetes(cluster: str, objects: tuple[str, ...]) -> Callable[[Path], int]:
    def land(folder: Path) -> int:
        files = [str(folder / "dcgm-exporter-runai" / f"k8s-{name}.yaml") for name in objects]
        return collect("kubernetes", "--cluster", cluster, "--partial", *files)

    return land


def _land_ml8(folder: Path) -> int:
    captures = folder / "uio-ml-sonar"
    config = ("--config", str(captures / "mlx.hpc.uio.no-config.json"))
    return collect("sonar", "--cluster", ML8, *config, *map(str, sorted(captures.glob("ml8-untagged-*.csv"))))


def _bill(delivery: str, file: str, *options: str) -> Callable[[Path], int]:
    return lambda folder: collect("billing", "--delivery-id", delivery, *options, str(folder / file))


def _requests(cluster: str, pattern: str, *options: str) -> Callable[[Path], int]:
    return lambda folder: collect("requests", "--cluster", cluster, *options, *map(str, sorted(folder.glob(pattern))))


def _inference(path: Path) -> Callable[[Path], int]:
    options = ("--cluster", path.stem, "--at", TRACE_END, "--started-at", TRACE_BEGIN)
    return lambda _: collect("inference", *options, str(path))


def _scrape(cluster: str, path: Path, at: datetime) -> Callable[[Path], int]:
    return lambda _: collect("dcgm", "--cluster", cluster, "--at", f"{at.isoformat()}Z", str(path))


def _land_fau(folder: Path) -> int:
    jobs, description = folder / "fau-alex-jobs" / "jobs_alex.csv", folder / "fau-alex-jobs" / "cluster_alex.json"
    rows = clustercockpit.to_rows(clustercockpit.read_jobs(jobs), clustercockpit.read_cards(description), FAU)
    return _adapt(clustercockpit.SOURCE, rows)


def _adapt(source: str, rows: Parsed) -> int:
    """Land what an adapter read; the exit code that a collector would have."""
    from collectors.command import LANDED, QUARANTINED, landing

    clusters = {row["cluster"] for table in rows.tables.values() for row in table}
    outcome = landing().land(source, rows.frames(), cluster=next(iter(clusters)), inputs=[source])
    print(outcome.summary())
    return QUARANTINED if outcome.rows_quarantined else LANDED
