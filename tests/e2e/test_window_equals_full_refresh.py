"""Landed piece by piece in any order over several builds, the published tables are those of one full build.

The worlds are random fleets (nodes, slots, shares, open runs seen again), scenarios with bills, rate cards and tokens, and
clusters that hypothesis draws with their answers (`drawn.py`). Each file but the bills and the reference tables is torn into
pieces; so a sample of yesterday arrives after today's, a run's end before the row that told it was open, a device's inventory
after the run that held it; some rows arrive twice. One pair of warehouses serves all properties: a build costs more than a world.
"""

from __future__ import annotations

import csv
import random
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from pathlib import Path

import duckdb
import pytest

from tests.conftest import OWN_VARIABLES, run_module
from tests.e2e.drawn import Cluster, Tables, answer, drawn, split
from tests.e2e.drawn import clusters as st_clusters
from tests.e2e.drawn import tables as drawn_tables
from tests.e2e.published import contents, differing_rows, lines, tables
from tests.reference.fleet import Fleet, make_fleet
from tests.scenarios.worlds import Scenario, scenarios
from warehouse.landing.shape import TABLES

pytestmark = pytest.mark.integration

FLEETS = (1, 4, 5, 11)
#: nothing of it is known to be suspended: what is, moves when more is known of a run
NEVER_SUSPENDED = 4
WORLDS = (
    "a_batch_job_pays_for_the_tokens_in_the_log",
    "a_correction_keeps_its_day_and_its_invoice",
    "a_commitment_is_paid_once",
    "a_cached_prompt_is_not_paid_twice",
    "a_gpu_without_cpus_left_for_a_job_is_stranded",
    "a_job_over_midnight_belongs_to_both_days",
    "a_line_over_two_days_falls_to_both",
    "a_machine_is_one_whatever_its_bill_calls_it",
    "a_node_is_known_to_its_bill_days_later",
    "a_replica_waits_for_a_busy_one_over_midnight",
    "a_slice_would_have_carried_the_run",
    "after_the_last_bill_cost_is_an_estimate",
    "memory_taken_at_start_is_not_needed",
    "an_end_that_arrives_later_replaces_the_open_run",
    "a_queue_waits_while_gpus_are_free",
    "a_second_export_of_a_month_replaces_the_first",
    "a_warm_node_loses_clock_and_draws_power_while_free",
    "a_yield_is_measured_against_the_best_sustained",
    "adapters_on_a_model_share_what_it_held",
    "energy_carbon_and_a_list_price_stand_beside_the_cost",
    "one_training_hour_with_every_common_state",
    "own_hardware_costs_its_purchase_its_place_and_its_energy",
    "the_minutes_before_an_hour_and_the_replicas_in_each_minute_decide",
    "the_most_specific_rate_card_prices_the_hour",
    "two_currencies_add_up_at_a_dated_rate",
    "usage_cost_is_not_allocation_cost_at_a_rate",
    "work_after_the_last_checkpoint_is_no_goodput",
)
#: a row's place in its file is part of a bill line's identity; of reference tables the last landed file stands
PRICES = ("rate_cards", "exchange_rates", "list_prices", "carbon_intensities")
LANDED_WHOLE = ("billing_lines", *PRICES, "workload_rules", "interventions")
#: what a price may be, and what of a device a bill and a rate card look at
FIGURE = re.compile(r"cost|price|rate$|grams|pue")
OF_BILLS = ("provider", "provider_resource_id", "region")
ROUNDS = 3
DRAWN = 12
#: each drawn cluster is landed under four names, so that one build answers for all of them
TELLINGS = ("drawn", "named", "split", "paced")
IDLE = ("pipeline_waiting", "reserved_memory", "idle_compute")
OTHER = ("out_of_service", "unallocated", "borrowed", "suspended", "unobserved")


@dataclass(frozen=True)
class Homes:
    """A warehouse that grew over several builds, and one that was built at once from the same rows."""

    grown: Path
    at_once: Path
    rounds: tuple[str, ...]  # what each build of the grown one printed
    earlier: tuple[Path, ...]
    pieces: tuple[Path, ...]
    clusters: tuple[Cluster, ...]


def published(home: Path) -> Path:
    return home / "published" / "current" / "gpu_net.duckdb"


def built(home: Path) -> Path:
    """The build's own database: what a window did needs no gate and no publication to be seen."""
    return home / "build" / "gpu_net.duckdb"


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Homes:
    root = tmp_path_factory.mktemp("windows")
    dice, clusters = random.Random(7), drawn(st_clusters(), DRAWN)
    pieces = _pieces(root / "pieces", clusters, dice)
    earlier = _earlier(root / "earlier", pieces)
    # what prices come to is learned after the days they price were built
    prices = [path for path in pieces if path.stem in PRICES]
    others = [path for path in pieces if path.stem not in PRICES]
    batches = [others[number::ROUNDS] for number in range(ROUNDS)]
    batches[1] += prices[::2]
    batches[2] += prices[1::2]
    # what is landed twice is counted twice among the rows landed, and nowhere else: the drawn answers know nothing of it
    again = _again(root / "again", [path for path in pieces if path in batches[0] or _is_drawn(path)], dice)
    printed: list[str] = []
    _land(root / "grown", earlier)
    for number, batch in enumerate(batches):
        _land(root / "grown", batch, landings=2)
        if batch is batches[-1]:
            _land(root / "grown", again)
        # not published: of a third of what there is the gate may well say that it cannot be true
        printed.append(_succeed(root / "grown", "warehouse", "build"))
        if number == 0:
            # a day that is not whole, some of whose runs are open: the builds after it put it right
            _succeed(root / "grown", "warehouse", "build", "--since", "2026-11-02", "--until", "2026-11-02T23:40:00Z")
    _run(root / "grown")
    for files in (earlier, sorted(pieces), again):
        _land(root / "at_once", files)
    _run(root / "at_once")
    return Homes(root / "grown", root / "at_once", tuple(printed), tuple(earlier), tuple(sorted(pieces)), tuple(clusters))


def test_landing_in_any_order_over_several_builds_gives_what_one_build_gives(homes: Homes) -> None:
    grown, at_once = contents(published(homes.grown)), contents(published(homes.at_once))
    assert grown.keys() == at_once.keys()
    # what a replica can do is learned when a day is first built, and anew by a full refresh only (semantics 5)
    del grown["fct_replica_demand_hourly"], at_once["fct_replica_demand_hourly"]
    assert grown["fct_gpu_ledger_hourly"][0] > 500
    for table, content in at_once.items():
        assert grown[table] == content, (table, differing_rows(published(homes.grown), published(homes.at_once), table))


def test_later_builds_replace_days_and_do_not_start_over(homes: Homes) -> None:
    assert "full refresh" in homes.rounds[0]
    assert all("full refresh" not in printed for printed in homes.rounds[1:])


def test_running_again_changes_nothing(homes: Homes) -> None:
    before, version = contents(published(homes.grown)), published(homes.grown).resolve()
    _run(homes.grown)
    assert published(homes.grown).resolve() == version
    assert contents(published(homes.grown)) == before


def test_rebuilding_a_window_changes_nothing(homes: Homes) -> None:
    before = contents(built(homes.grown))
    _succeed(homes.grown, "warehouse", "build", "--since", "2026-11-02", "--until", "2026-11-03")
    for table, content in contents(built(homes.grown)).items():
        assert content == before[table], table


def test_prices_twice_as_high_change_no_hour(homes: Homes) -> None:
    """The first rate cards, landed again, are current again."""
    hours = """select hour_start_at, cluster, slot_id, run_id, state, state_reason, signal_source, gpu_microseconds
        from fct_gpu_ledger_hourly order by all"""
    costs = "select cluster, sum(cost) from fct_gpu_ledger_hourly where cost_source = 'rate_card' group by cluster order by all"
    with duckdb.connect(str(built(homes.grown)), read_only=True) as connection:
        before, paid = connection.execute(hours).fetchall(), connection.execute(costs).fetchall()
    _land(homes.grown, [path for path in homes.earlier if path.stem == "rate_cards"])
    _succeed(homes.grown, "warehouse", "build")
    with duckdb.connect(str(built(homes.grown)), read_only=True) as connection:
        assert connection.execute(hours).fetchall() == before
        dearer = dict(connection.execute(costs).fetchall())
    assert paid
    assert all(float(dearer[cluster]) > 1.5 * float(cost) for cluster, cost in paid if cost)


def test_a_window_built_again_after_later_data_gives_what_it_gave(homes: Homes) -> None:
    """Later rows of the same clusters, holders that are open still among them: of the window's days nothing moves.

    Suspended time whose place nobody knows is spread over what is known of its run, and more is known of an open one now.
    """
    with duckdb.connect(str(built(homes.grown)), read_only=True) as connection:
        suspended = connection.execute(
            "select distinct cluster from int_runs where is_provisional and suspended_ratio > 0 order by cluster"
        ).fetchall()
    spread = [cluster for (cluster,) in suspended]
    assert f"fleet_{NEVER_SUSPENDED}" not in spread
    before = _days(built(homes.grown), "2026-11-02", spread)
    assert before["fct_gpu_ledger_hourly"][0] > 250
    _land(homes.grown, _later(homes.grown.parent / "later"))
    _succeed(homes.grown, "warehouse", "build", "--since", "2026-11-02", "--until", "2026-11-03")
    for table, content in _days(built(homes.grown), "2026-11-02", spread).items():
        assert content == before[table], table


def test_landing_again_leaves_the_same_files(homes: Homes) -> None:
    """An older state of a reference table, landed again after a newer one, is current again: a landing of its own."""
    raw = homes.at_once / "raw"
    before = sorted(path for path in raw.rglob("*.parquet"))
    _land(homes.at_once, [path for path in homes.pieces if not TABLES[path.stem].is_reference])
    assert sorted(path for path in raw.rglob("*.parquet")) == before


def test_every_drawn_minute_is_what_it_was_made(homes: Homes) -> None:
    """Conservation, and more: capacity, held, unobserved, idle and active time are those counted minute by minute."""
    for number, cluster in enumerate(homes.clusters):
        for telling in TELLINGS:
            pace = 2 if telling == "paced" else 1
            hours = _hours(homes.at_once, f"{telling}_{number}")
            known = answer(cluster)
            found = {name: round(60 * hours[name] / pace, 6) for name in ("capacity", "held", "unobserved", "idle", "active")}
            assert found == asdict(known), (telling, cluster)


def test_another_name_changes_nothing_else(homes: Homes) -> None:
    with duckdb.connect(str(published(homes.at_once)), read_only=True) as connection:
        for table in tables(connection):
            rows = [row for (row,) in connection.execute(lines(connection, table)).fetchall()]
            for number in range(DRAWN):
                one, other = (re.compile(rf"\b{name}_{number}(?![0-9])") for name in ("drawn", "named"))
                expected = sorted(one.sub("cluster", row) for row in rows if one.search(row))
                assert sorted(other.sub("cluster", row) for row in rows if other.search(row)) == expected, table


def test_a_run_told_as_two_that_follow_each_other_changes_no_hours(homes: Homes) -> None:
    columns = "usage_date, held_gpu_hours, productive_gpu_hours, idle_gpu_hours, ghost_gpu_hours, unobserved_gpu_hours"
    with duckdb.connect(str(published(homes.at_once)), read_only=True) as connection:
        for number, cluster in enumerate(homes.clusters):
            whole, parts = (
                connection.execute(
                    f"select {columns} from mart_workload_gpu_hours_daily where cluster = ? and held_gpu_hours > 0 order by all",
                    [f"{telling}_{number}"],
                ).fetchall()
                for telling in ("drawn", "split")
            )
            assert [row[0] for row in parts] == [row[0] for row in whole]
            for one, other in zip(whole, parts, strict=True):
                assert other[1:] == pytest.approx(one[1:], abs=1e-9), cluster
        assert (
            connection.execute("select count(*) from dim_runs where cluster like 'split_%'").fetchall()
            > connection.execute("select count(*) from dim_runs where cluster like 'drawn_%'").fetchall()
        )


def _days(database: Path, day: str, without: Sequence[str]) -> dict[str, tuple[int, str]]:
    """Like `contents`, of the tables that have days only the rows of one, and none that names a cluster of `without`."""
    others = rf"\b({'|'.join(without) or 'none'})\b"
    with duckdb.connect(str(database), read_only=True) as connection:
        found = {}
        for table in tables(connection):
            columns = {row[0] for row in connection.execute(f"describe main.{table}").fetchall()}
            time = next((name for name in ("usage_date", "hour_start_at") if name in columns), None)
            if time:
                found[table] = connection.execute(
                    f"""select count(*), coalesce(md5(string_agg(line, chr(10) order by line)), '')
                    from ({lines(connection, table)} where cast({time} as date) = date '{day}')
                    where not regexp_matches(line, ?)""",
                    [others],
                ).fetchall()[0]
        return found


def _later(folder: Path) -> list[Path]:
    """What the random fleets did three days later on the same devices, in other jobs."""
    paths: list[Path] = []
    for seed in FLEETS:
        for table, rows in _fleet(seed).first.items():
            if table not in LANDED_WHOLE:
                later = [{name: _INSTANT.sub(_three_days_later, cell) for name, cell in row.items()} for row in rows]
                for row in later:
                    if row.get("job_id"):
                        row["job_id"] += "-later"
                paths.append(_write(folder / str(seed) / f"{table}.csv", later))
    return paths


_INSTANT = re.compile(r"2026-11-\d\d(?=T)")


def _three_days_later(day: re.Match[str]) -> str:
    return str(date.fromisoformat(day.group()) + timedelta(days=3))


def _hours(home: Path, cluster: str) -> dict[str, float]:
    """GPU-hours of a cluster; what is neither idle nor without an answer is active, whatever state it is in."""
    with duckdb.connect(str(published(home)), read_only=True) as connection:
        states = dict(
            connection.execute(
                "select state, sum(gpu_hours) from fct_gpu_ledger_hourly where cluster = ? group by state", [cluster]
            ).fetchall()
        )
    idle = sum(states.get(state, 0.0) for state in IDLE)
    capacity, other = sum(states.values()), sum(states.get(state, 0.0) for state in OTHER)
    held = capacity - sum(states.get(state, 0.0) for state in ("unallocated", "borrowed", "out_of_service"))
    unobserved = states.get("unobserved", 0.0)
    return {"capacity": capacity, "held": held, "unobserved": unobserved, "idle": idle, "active": capacity - other - idle}


def _run(home: Path) -> str:
    return _succeed(home, "warehouse", "run")


def _succeed(home: Path, *arguments: str) -> str:
    done = run_module(home, *arguments)
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    return done.stdout + done.stderr


def _land(home: Path, files: list[Path], *, landings: int = 1) -> None:
    """Land the files of each table together, in so many landings; what is landed whole, each file in one of its own."""
    from collectors.tables.collect import collect
    from warehouse.home import Home
    from warehouse.landing.landings import Landing

    together: dict[str, list[Path]] = {}
    for path in files:
        together.setdefault(str(path) if path.stem in LANDED_WHOLE else path.stem, []).append(path)
    with pytest.MonkeyPatch.context() as patch:
        for name in OWN_VARIABLES:
            patch.delenv(name, raising=False)
        patch.setenv("GPU_NET_HOME", str(home))
        landing = Landing(Home.from_environment())
        for paths in together.values():
            for part in filter(None, (paths[number::landings] for number in range(landings))):
                outcome = collect(part[0].stem, tuple(part), None, landing)
                assert not outcome.rows_quarantined, outcome.rejected_rows[:3]


def _again(folder: Path, pieces: list[Path], dice: random.Random) -> list[Path]:
    """Copies of pieces, their rows in another order: other files with the same content.

    All of the drawn clusters, so that each of the twins has the same rows twice, and some of the others.
    """
    copies: list[Path] = []
    chosen = [piece for piece in pieces if piece.stem not in LANDED_WHOLE and (_is_drawn(piece) or dice.random() < 0.2)]
    for number, path in enumerate(chosen):
        with path.open(newline="") as text:
            rows = list(csv.DictReader(text))
        dice.shuffle(rows)
        copies.append(_write(folder / str(number) / path.name, rows))
    return copies


def _earlier(folder: Path, pieces: list[Path]) -> list[Path]:
    """What was told before it was put right: prices that were twice as high, devices of which no bill could know."""
    copies: list[Path] = []
    for number, path in enumerate(pieces):
        if path.stem not in (*PRICES, "gpu_inventory") or _is_drawn(path):
            continue
        with path.open(newline="") as text:
            rows = list(csv.DictReader(text))
        if path.stem == "gpu_inventory":
            told = [row | {name: "" for name in OF_BILLS if name in row} for row in rows if any(map(row.get, OF_BILLS))]
        else:
            told = [
                {name: str(2 * float(cell)) if cell and FIGURE.search(name) else cell for name, cell in row.items()}
                for row in rows
            ]
        if told:
            copies.append(_write(folder / str(number) / path.name, told))
    return copies


def _is_drawn(piece: Path) -> bool:
    return piece.parents[1].name.startswith("drawn_")


def _pieces(folder: Path, clusters: Sequence[Cluster], dice: random.Random) -> list[Path]:
    """The worlds' files, torn into pieces, in random order."""
    chosen = [scenario for scenario in scenarios() if scenario.name in WORLDS]
    assert len(chosen) == len(WORLDS)
    paths = [path for scenario in chosen for path in _torn(scenario, folder / scenario.name, dice)]
    for seed in FLEETS:
        fleet = _fleet(seed)
        for table, rows in fleet.first.items():
            paths += _write_torn(table, rows, folder / fleet.cluster, dice)
    for number, cluster in enumerate(clusters):
        for table, rows in _tellings(number, cluster).items():
            paths += _write_torn(table, rows, folder / f"drawn_{number}", dice)
    dice.shuffle(paths)
    return paths


def _tellings(number: int, cluster: Cluster) -> Tables:
    found: Tables = {}
    for telling in TELLINGS:
        told = split(cluster) if telling == "split" else cluster
        for table, rows in drawn_tables(told, f"{telling}_{number}", pace=2 if telling == "paced" else 1).items():
            found.setdefault(table, []).extend(rows)
    return found


def _fleet(seed: int) -> Fleet:
    fleet = make_fleet(seed)
    if seed == NEVER_SUSPENDED:
        for row in fleet.first["runs"]:
            row.pop("suspended_seconds", None)
    return fleet


def _torn(scenario: Scenario, folder: Path, dice: random.Random) -> list[Path]:
    paths: list[Path] = []
    for path in scenario.raw_files:
        with path.open(newline="") as text:
            paths += _write_torn(path.stem, list(csv.DictReader(text)), folder, dice)
    return paths


def _write_torn(table: str, rows: list[dict[str, str]], folder: Path, dice: random.Random) -> list[Path]:
    count = 1 if table in LANDED_WHOLE else dice.randint(2, 4)
    parts: list[list[dict[str, str]]] = [[] for _ in range(count)]
    for row in rows:
        parts[dice.randrange(count)].append(row)
    paths: list[Path] = []
    for number, part in enumerate(parts):
        if part:
            paths.append(_write(folder / str(number) / f"{table}.csv", part))
    return paths


def _write(path: Path, rows: list[dict[str, str]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as text:
        writer = csv.DictWriter(text, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path
