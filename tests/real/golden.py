"""Figures of the captures that were worked out from their own text, and where the warehouse answers them.

Each was recomputed without the pipeline: the jobs' in `test_fau_alex.py` and `test_slurm_captures.py`, the bill's in
`test_focus_sample.py`; the scrapes' are minutes × slices. GPU time is compared in whole microseconds, money to 12 places.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from tests.real.systems import FAU, FOX_2024, FOX_2025, FOX_DAY, FOX_SNAPSHOTS, ML8, SHORT_NAMES, SLURM_LIVE
from warehouse.database import connect
from warehouse.home import Home
from warehouse.verdict import read_verdict

SECOND = 1_000_000
HOUR = 3600 * SECOND
MINUTE = 60 * SECOND
TIME = "GPU time"


@dataclass(frozen=True)
class Golden:
    """`unit` is `GPU time` for figures in microseconds; `query` gives one value, from the published database unless
    `is_private` says that only the build knows it."""

    system: str
    what: str
    expected: int | Decimal
    unit: str
    query: str
    tolerance: int = 0
    is_private: bool = False

    @property
    def name(self) -> str:
        return f"{self.system}: {self.what}"

    def agrees(self, measured: int | Decimal) -> bool:
        return abs(measured - self.expected) <= self.tolerance

    def show(self, value: int | Decimal) -> str:
        if self.unit != TIME:
            return f"{value.normalize():f}" if isinstance(value, Decimal) else f"{value:,}"
        return f"{value / HOUR:,.2f} h" if value >= HOUR else f"{value / SECOND:,.6f} s"


def _ledger(cluster: str, condition: str) -> str:
    return (
        "select cast(coalesce(sum(gpu_microseconds), 0) as bigint) from fct_gpu_ledger_hourly "
        f"where cluster = '{cluster}' and {condition}"
    )


def _held(cluster: str, jobs: int, gpu_seconds: int) -> Iterator[Golden]:
    yield Golden(
        *(cluster, "jobs that held a GPU", jobs, "jobs"),
        f"select count(*) from dim_runs where cluster = '{cluster}' and held_gpu_hours > 0",
    )
    yield Golden(cluster, "held", gpu_seconds * SECOND, TIME, _ledger(cluster, "run_id <> 'unallocated'"))


def _held_for(cluster: str, runs: int, microseconds: int, tolerance: int = 10) -> Iterator[Golden]:
    """Pods' time on parts of a card; each part is rounded down by device and hour."""
    yield Golden(
        *(cluster, "runs that held a GPU", runs, "runs"),
        f"select count(*) from dim_runs where cluster = '{cluster}' and held_gpu_hours > 0",
    )
    yield Golden(cluster, "held", microseconds, TIME, _ledger(cluster, "run_id <> 'unallocated'"), tolerance=tolerance)


def _scraped(cluster: str, devices: int, stranded_us: int = 0) -> Iterator[Golden]:
    """A first reading covers one interval, a minute; the slices that a MIG card's layout leaves over are stranded."""
    yield Golden(cluster, "capacity", devices * MINUTE, TIME, _ledger(cluster, "true"))
    if stranded_us:
        yield Golden(cluster, "stranded by its MIG layout", stranded_us, TIME, _ledger(cluster, "state_reason = 'stranded'"))


def _delivered(bill: str, lines: int, effective: str) -> Iterator[Golden]:
    """A bill in a provider's own format: its lines, and their cost in the file cut to the 12 digits that land."""
    where = f"from stg_landing__billing_lines where delivery_id = '{bill}'"
    yield Golden(bill, "lines", lines, "lines", f"select count(*) {where}", is_private=True)
    query = f"select sum(effective_cost) {where}"
    yield Golden(bill, "effective cost", Decimal(effective), "", query, is_private=True)


def _listed(provider: str, prices: int, total: str) -> Iterator[Golden]:
    where = f"from stg_landing__rate_cards where cluster = 'price-lists' and provider = '{provider}'"
    yield Golden(f"price list {provider}", "prices per GPU-hour", prices, "prices", f"select count(*) {where}", is_private=True)
    yield Golden(
        *(f"price list {provider}", "their sum", Decimal(total), "USD/h", f"select sum(cost_per_gpu_hour) {where}"),
        is_private=True,
    )


def _specified(model: str, watts: int) -> Iterator[Golden]:
    """The catalogue's figures beside those of the public lists in `gpu-specs`."""
    query = f"select max(tdp_watts) from gpu_models where catalogue_model = '{model}'"
    yield Golden("gpu-specs", f"TDP of {model}", watts, "W", query, is_private=True)


def _billed(provider: str, lines: int, billed: str) -> Iterator[Golden]:
    where = f"from fct_billing_lines where provider_name = '{provider}' and billing_period_start >= '2024-01-01'"
    yield Golden("focus-1.0-sample", f"lines of {provider}", lines, "lines", f"select count(*) {where}")
    yield Golden(
        "focus-1.0-sample", f"billed by {provider}", Decimal(billed), "USD",
        f"select sum(billed_cost) {where} and billing_currency = 'USD'",
    )  # fmt: skip


#: what the build keeps of the readings themselves
_MINUTES = "int_gpu_minutes_rolled_up join int_sample_series using (series_number)"


def _rolled_up(cluster: str, column: str, what: str, expected: int, tolerance: int = 10) -> Golden:
    """A figure of the readings themselves, which only the build keeps: `covered_us`, or `activity_us`, what was active."""
    query = f"select cast(round(coalesce(sum({column}), 0)) as bigint) from {_MINUTES} where cluster = '{cluster}'"
    return Golden(cluster, what, expected, TIME, query, tolerance=tolerance, is_private=True)


def _read_by_smi(cluster: str, seconds: float, active_seconds: float | None, devices: int = 1) -> Iterator[Golden]:
    """Readings of nvidia-smi: how long they speak for; with MIG they tell no utilisation, which is not 0."""
    yield Golden(f"smi-{cluster}", "capacity", round(seconds * SECOND), TIME, _ledger(f"smi-{cluster}", "true"))
    covered = 0 if active_seconds is None else round(seconds * SECOND)
    yield _rolled_up(f"smi-{cluster}", "covered_us", "covered by readings", covered)
    if active_seconds:
        yield _rolled_up(f"smi-{cluster}", "activity_us", "active", round(active_seconds * SECOND))


def _served(cluster: str, figures: Mapping[str, int], model: str | None = None) -> Iterator[Golden]:
    where = f"cluster = '{cluster}'" + (f" and model = '{model}'" if model else "")
    for column, expected in figures.items():
        name = f"{model} {column}" if model else column
        query = f"select cast(coalesce(sum({column}), 0) as bigint) from fct_inference_hourly where {where}"
        yield Golden(cluster, name.replace("_", " "), expected, "", query)


GOLDEN = (
    *_held(FAU, 303, 14_328_134),
    # Σ duration × cards × average utilisation; a double per reading, so not to the last microsecond
    Golden(
        *(FAU, "held, weighted by each job's average utilisation", 10_295_573_717_820, TIME),
        f"select cast(round(sum(activity_us)) as bigint) from {_MINUTES} where cluster = '{FAU}'",
        tolerance=SECOND,
        is_private=True,
    ),
    # all but the 2 s of a job whose card is not told
    Golden(
        *(FAU, "covered by readings", 14_328_132 * SECOND, TIME),
        f"select cast(sum(covered_us) as bigint) from {_MINUTES} where cluster = '{FAU}'",
        is_private=True,
    ),
    # 108 jobs average under 5 %, which is idle: the rest held 14,044,423 GPU-seconds. States are decided on minutes, so
    # that the minutes in which a job begins or ends are mixed; all of that is within a GPU-hour here
    Golden(
        *(FAU, "productive (jobs of 5 % and more)", 14_044_423 * SECOND, TIME),
        # active time that a slice would have carried is told apart
        _ledger(FAU, "state in ('productive', 'oversized')"),
        tolerance=HOUR,
    ),
    *_held(FOX_DAY, 84, 140_399),
    *_held(FOX_2025, 65, 3_360_033),
    *_held(FOX_2024, 16, 3_007),
    # the later of two snapshots: a running job's row is repeated, not added
    *_held(FOX_SNAPSHOTS, 80, 2_878_675),
    Golden("fox-nodes", "nodes", 42, "nodes", "select count(*) from dim_nodes where cluster = 'fox-nodes'"),
    # 17 s of one job, the only GPU count is `ngpu` in its comment
    *_held("slurm2sql", 1, 17),
    Golden("slurmrestd", "jobs", 3, "jobs", "select count(*) from dim_runs where cluster = 'slurmrestd'"),
    # 494 snapshots over 41 h of 4 cards: 63.6 % held by a process, 28.1 % utilised (28.0 % where snapshots weigh the same)
    Golden(ML8, "capacity", 591_603_474_896, TIME, _ledger(ML8, "true"), tolerance=4 * 494 * 1000),
    Golden(ML8, "held", 376_442_349_808, TIME, _ledger(ML8, "run_id <> 'unallocated'"), tolerance=10),
    _rolled_up(ML8, "activity_us", "held, weighted by utilisation", 166_074_201_833, tolerance=4 * 494 * 1000),
    # pods scheduled for seconds before they were saved: a seventh of a card, a card, half a card
    *_held_for("runai-mig-1g", 1, 8 * SECOND // 7),
    *_held_for("runai-mig-7g", 1, 1_752 * SECOND),
    *_held_for("runai-fraction", 1, 12 * SECOND),
    # Σ GPUs × milli × time over the pods that were scheduled
    *_held_for("openb", 6_203, 185_294_427_000_000, tolerance=70_000),
    # 375 s by slots handed out; one job of 6 s held a `1g.10gb` instance, a seventh of a card
    *_held_for(SLURM_LIVE, 15, 369 * SECOND + 6 * SECOND // 7),
    # 6 s of a job of one GPU, spread over its 99 s: rounded down by device and hour
    Golden(SLURM_LIVE, "suspended", 6 * SECOND, TIME, _ledger(SLURM_LIVE, "state = 'suspended'"), tolerance=10),
    *_scraped("a100-idle-1", 1),
    *_scraped("a100-idle-2", 1),
    *_scraped("a100-mig-empty", 1),
    *_scraped("mig-1g-active", 1, 51_428_571),  # 6 of 7 slices
    *_scraped("mig-1g-idle", 1, 51_428_571),
    *_scraped("mig-three", 1, 25_714_286),  # 3 of 7
    *_scraped("mig-four", 1, 17_142_857),  # 2 of 7
    *_scraped("t4-pod-labels", 2),
    *_scraped("datadog-t4", 2),
    # pods are known by name only, or not at all: that is no evidence of who held a card
    Golden(
        *("all scrapes", "held", 0, TIME),
        "select cast(coalesce(sum(gpu_microseconds), 0) as bigint) from fct_gpu_ledger_hourly "
        f"where cluster in ({', '.join(repr(name) for name in SHORT_NAMES.values())}) and run_id <> 'unallocated'",
    ),
    # an idle and a loaded reading each, the second for the seconds since the first
    *_read_by_smi("h100", 74.657, 14.657),
    *_read_by_smi("h100-mig", 76.787, None),
    *_read_by_smi("h200", 83.654, 23.654),
    *_read_by_smi("h200-mig", 85.774, None),
    *_read_by_smi("l40s", 74.678, 60 + 0.09 * 14.678),
    *_read_by_smi("rtx2080s-windows", 75.181, 0.07 * 15.181),
    *_read_by_smi("a100-sxm4-v12", 60, None),
    *(golden for card in ("a10g", "gtx-1070-ti", "rtx-3090-v12", "tesla-t4") for golden in _read_by_smi(card, 60, 0)),
    *_read_by_smi("rtx-3080-v13", 60, 39),
    *_read_by_smi("rtx-4000-sff-ada-v13", 60, 0),
    *_read_by_smi("mi100_rocm571", 6 * 60, 0),
    *_read_by_smi("mi100_rocm602", 4 * 60, 0),
    *_served("azure-llm", {"request_count": 8_819 + 19_366, "prompt_tokens": 40_421_844, "output_tokens": 4_334_561}),
    *_served("mooncake", {"request_count": 12_031 + 3_993, "prompt_tokens": 205_988_451, "output_tokens": 4_717_480}),
    *_served("litellm", {"request_count": 1, "prompt_tokens": 10, "output_tokens": 20}, "gpt-4o"),
    *_served("sglang-llama31-8b-overloaded", {"request_count": 11_228, "prompt_tokens": 8_128_902, "output_tokens": 7_557_572}),
    *_served("sglang-0.5.10-opt125m-datadog", {"request_count": 1, "cached_prompt_tokens": 1, "output_tokens": 32}),
    *_served("tgi-datadog-excerpt", {"request_count": 111, "failed_request_count": 2, "prompt_tokens": 662}),
    *_served("triton-datadog-excerpt", {"request_count": 3}),
    *_served("vllm-opt125m-datadog", {"request_count": 1, "prompt_tokens": 5, "output_tokens": 7}),
    *_served(
        "vllm-v1-lmswitch-excerpt",
        {"request_count": 26, "prompt_tokens": 3_675_428, "cached_prompt_tokens": 3_241_216, "output_tokens": 44_995},
    ),
    # Σ rate × 600 s, rounded per window
    *_served("servegen", {"request_count": 424_415_972}, "language_m-small"),
    *_served("servegen", {"request_count": 54_997_263}, "language_m-large"),
    *_served("servegen", {"request_count": 504_268}, "reason_deepseek-r1"),
    *_served("servegen", {"request_count": 110_671}, "multimodal_mm-image"),
    *_listed("lambda", 9, "7.85"),
    *_listed("opencost", 4, "3.05"),
    *_listed("oracle-list", 7, "24.55"),
    *_listed("google-list", 1, "2.933908"),
    *_specified("NVIDIA H100 80GB HBM3", 700),
    *_specified("NVIDIA A100-SXM4-80GB", 400),
    *_specified("Tesla T4", 70),
    *_delivered("aws-cur", 1281, "1.6823086974"),
    *_delivered("azure-ea", 27, "1.261369265057"),
    *_delivered("oci", 506, "2.52358932543"),
    # a reservation is a purchase of 3.25 in the actual cost, and a share of each hour's usage in the amortised
    *_delivered("azure-ea-actual", 11, "5.295007786742"),
    *_delivered("azure-ea-amortized", 28, "16.296932136637"),
    *_delivered("opencost-azure", 87, "16.393506212225"),
    *_billed("AWS", 942, "18.0066386184"),
    *_billed("Microsoft", 51, "1.97651418586"),
    *_billed("Oracle", 7, "0.53707392473"),
    Golden(
        *("focus-1.0-sample", "lines below zero", 13, "lines"),
        "select count(*) from fct_billing_lines "
        "where (billed_cost < 0 or effective_cost < 0) and billing_period_start >= '2024-01-01'",
    ),
    Golden(
        *("all", "days and clusters whose GPU-hours are not conserved", 0, "rows"),
        "select count(*) from audit_gpu_hours_conserved where not holds",
    ),
    Golden(
        *("all", "closed days of a bill that do not reconcile", 0, "rows"),
        "select count(*) from audit_cost_reconciled where not holds",
    ),
)


def measure(home: Home) -> dict[str, int | Decimal]:
    """What the published database (and the build, where only it knows) says of each figure, by its name."""
    measured: dict[str, int | Decimal] = {}
    for path, is_private in ((home.published_database, False), (home.build_database, True)):
        with connect(path, read_only=True) as connection:
            for golden in GOLDEN:
                if golden.is_private == is_private:
                    measured[golden.name] = connection.execute(golden.query).fetchall()[0][0]
    return measured


def verdict_of(home: Home) -> str:
    """The gate's verdict in words; `no verdict` where there is none."""
    verdict = read_verdict(home)
    if verdict is None:
        return "no verdict"
    return f"{verdict.verdict}: {verdict.passed} checks passed, {verdict.warned} warnings, {verdict.failed} critical failures"
