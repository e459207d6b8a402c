"""Figures of the captures that were worked out from their own text, and where the warehouse answers them.

Each was recomputed without the pipeline: the jobs' in `test_fau_alex.py` and `test_slurm_captures.py`, the bill's in
`test_focus_sample.py`; the scrapes' are minutes × slices. GPU time is compared in whole microseconds, money to 12 places.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from tests.real.systems import FAU, FOX_2024, FOX_2025, FOX_DAY, SLURM_LIVE
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


def _scraped(cluster: str, devices: int, stranded_us: int = 0) -> Iterator[Golden]:
    """A first reading covers one interval, a minute; the slices that a MIG card's layout leaves over are stranded."""
    yield Golden(cluster, "capacity", devices * MINUTE, TIME, _ledger(cluster, "true"))
    if stranded_us:
        yield Golden(cluster, "stranded by its MIG layout", stranded_us, TIME, _ledger(cluster, "state_reason = 'stranded'"))


def _billed(provider: str, lines: int, billed: str) -> Iterator[Golden]:
    where = f"from fct_billing_lines where provider_name = '{provider}'"
    yield Golden("focus-1.0-sample", f"lines of {provider}", lines, "lines", f"select count(*) {where}")
    yield Golden(
        "focus-1.0-sample", f"billed by {provider}", Decimal(billed), "USD",
        f"select sum(billed_cost) {where} and billing_currency = 'USD'",
    )  # fmt: skip


GOLDEN = (
    *_held(FAU, 303, 14_328_134),
    # Σ duration × cards × average utilisation; a double per reading, so not to the last microsecond
    Golden(
        *(FAU, "held, weighted by each job's average utilisation", 10_295_573_717_820, TIME),
        f"select cast(round(sum(activity_us)) as bigint) from int_gpu_minutes_rolled_up where cluster = '{FAU}'",
        tolerance=SECOND,
        is_private=True,
    ),
    # all but the 2 s of a job whose card is not told
    Golden(
        *(FAU, "covered by readings", 14_328_132 * SECOND, TIME),
        f"select cast(sum(covered_us) as bigint) from int_gpu_minutes_rolled_up where cluster = '{FAU}'",
        is_private=True,
    ),
    # 108 jobs average under 5 %, which is idle: the rest held 14,044,423 GPU-seconds. States are decided on minutes, so
    # that the minutes in which a job begins or ends are mixed; all of that is within a GPU-hour here
    Golden(
        *(FAU, "productive (jobs of 5 % and more)", 14_044_423 * SECOND, TIME),
        _ledger(FAU, "state = 'productive'"),
        tolerance=HOUR,
    ),
    *_held(FOX_DAY, 84, 140_399),
    *_held(FOX_2025, 65, 3_360_033),
    *_held(FOX_2024, 16, 3_007),
    *_held(SLURM_LIVE, 15, 375),
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
        "where year(hour_start_at) = 2023 and month(hour_start_at) = 1 and run_id <> 'unallocated'",
    ),
    *_billed("AWS", 942, "18.0066386184"),
    *_billed("Microsoft", 51, "1.97651418586"),
    *_billed("Oracle", 7, "0.53707392473"),
    Golden(
        *("focus-1.0-sample", "lines below zero", 13, "lines"),
        "select count(*) from fct_billing_lines where billed_cost < 0 or effective_cost < 0",
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
