"""The dashboard in a real Superset over the demo's published file: every chart gets an answer, and its numbers are the marts'.

`pytest --basetemp=FOLDER` keeps the picture, `dashboard.png`, where one can look at it.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.conftest import PROJECT_ROOT
from tests.unit.warehouse.superset.test_dashboard import exported
from warehouse.superset import command

PYTHON = command.FOLDER / "venv" / "bin" / "python"
PUBLISHED = PROJECT_ROOT / ".demo" / "data" / "published" / "current" / "gpu_net.duckdb"

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not PYTHON.exists(), reason="Superset is not installed: `make bi-superset` does that"),
    pytest.mark.skipif(
        not (shutil.which("chromium") and shutil.which("chromedriver")),
        reason="no chromium and chromedriver on this machine (Debian: apt-get install chromium chromium-driver)",
    ),
    pytest.mark.skipif(not PUBLISHED.exists(), reason="the demo's fleet is the data: `make demo` first"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("superset")


@pytest.fixture(scope="module")
def answers(folder: Path) -> Iterator[dict[str, dict[str, Any]]]:
    """Chart's name → what its data request was answered."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    server = command.start(PUBLISHED, port, folder)
    try:
        script = Path(__file__).with_name("superset_browser.py")
        password = (folder / "admin_password").read_text()
        picture, kept = folder / "dashboard.png", folder / "answers.json"
        arguments = [server.address, password, command.DASHBOARD, str(picture), str(kept)]
        subprocess.run([str(PYTHON), str(script), *arguments], check=True, timeout=900, cwd=folder)
        yield json.loads(kept.read_text())
    finally:
        server.end()


@pytest.fixture(scope="module")
def marts() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(str(PUBLISHED), read_only=True) as connection:
        yield connection


def test_every_chart_is_answered_without_an_error(answers: dict[str, dict[str, Any]]) -> None:
    names = {chart["slice_name"] for chart in exported("charts").values()}
    assert names <= answers.keys()
    assert {name: one["error"] for name, one in answers.items() if one["error"] or one["status"] != 200} == {}
    assert [name for name in names if not answers[name]["rows"]] == []


@pytest.mark.parametrize(
    ("chart", "query"),
    [
        (
            "GPU Net",
            """select sum(productive_gpu_hours) / (sum(capacity_gpu_hours) - sum(out_of_service_gpu_hours))
            from mart_gpu_net_daily""",
        ),
        ("Capacity", "select sum(gpu_microseconds) / 3.6e9 from fct_gpu_ledger_hourly"),
        ("Held", "select sum(held_gpu_hours) from mart_workload_gpu_hours_daily"),
        ("Ghost time", "select sum(gpu_hours) from mart_ghost_capacity_daily where is_ghost"),
        ("Ghost cost", "select sum(cost)::double from mart_ghost_capacity_daily where is_ghost"),
        ("Cost", "select sum(cost)::double from mart_ghost_capacity_daily"),
        ("Coverage", "select 1 - sum(unobserved_gpu_hours) / sum(held_gpu_hours) from mart_gpu_net_daily"),
        ("Checks passed", "select checks_passed from publication"),
        ("Warnings", "select checks_warned from publication"),
    ],
)
def test_a_big_number_is_that_of_the_marts(
    answers: dict[str, dict[str, Any]], marts: duckdb.DuckDBPyConnection, chart: str, query: str
) -> None:
    """Where it can be, it is taken from another table than the chart's own."""
    ((shown,),) = [row.values() for row in answers[chart]["rows"]]
    assert shown == pytest.approx(marts.execute(query).fetchall()[0][0], rel=1e-9)


def test_the_waterfall_closes_on_the_capacity(answers: dict[str, dict[str, Any]]) -> None:
    steps = [row["gpu_hours_sum"] for row in answers["Waterfall of GPU-hours"]["rows"]]
    assert sum(steps) == pytest.approx(answers["Capacity"]["rows"][0]["capacity"], rel=1e-9)


def test_tables_say_what_the_marts_say(answers: dict[str, dict[str, Any]], marts: duckdb.DuckDBPyConnection) -> None:
    unit_costs = dict(
        marts.execute(
            """select dim_workloads.workload, (1e6 * sum(allocation_cost) / nullif(sum(tokens_all), 0))::double
            from mart_unit_economics_daily join dim_workloads using (workload_id) where cost_per_million_tokens is not null
            group by all"""
        ).fetchall()
    )
    shown = {row["workload"]: row["cost_per_mtoken"] for row in answers["Unit economics by workload and model"]["rows"]}
    assert {name: cost for name, cost in shown.items() if cost is not None} == pytest.approx(unit_costs, rel=1e-6)
    charged = sum(row["cost_sum"] or 0 for row in answers["Chargeback lines"]["rows"])
    assert charged == pytest.approx(marts.execute("select sum(cost)::double from mart_team_chargeback_monthly").fetchall()[0][0])
    ghosts = sum(row["cost_sum"] or 0 for row in answers["The largest ghosts"]["rows"])
    assert ghosts == pytest.approx(answers["Ghost cost"]["rows"][0]["ghost_cost_sum"])


def test_the_idle_map_has_a_row_for_every_hour_of_its_gpus(
    answers: dict[str, dict[str, Any]], marts: duckdb.DuckDBPyConnection
) -> None:
    rows = answers["Idle map of GPU and hour"]["rows"]
    (hours,) = marts.execute(
        """select count(distinct (hour_start_at, gpu_id)) from fct_gpu_ledger_hourly
        where usage_date > (select max(usage_date) - 7 from mart_gpu_net_daily)"""
    ).fetchone() or (0,)
    assert len({row["gpu"] for row in rows}) == 60
    assert len(rows) == hours
    assert all(0 <= row["ghost_share"] <= 1 for row in rows)


def test_the_picture_shows_charts(answers: dict[str, dict[str, Any]], folder: Path) -> None:
    from PIL import Image

    with Image.open(folder / "dashboard.png") as picture:
        assert picture.size[0] == 1600
        assert picture.size[1] > 3000
        # charts in many colours, not a page of messages
        assert len(picture.convert("RGB").quantize(64).getcolors() or []) > 40


def test_another_publication_is_shown_without_a_restart(answers: dict[str, dict[str, Any]]) -> None:
    """The connection of the export has no pool and no cache of answers, which would outlive a publication."""
    settings = (Path(command.__file__).with_name("settings.py")).read_text()
    assert 'DATA_CACHE_CONFIG = {"CACHE_TYPE": "NullCache"}' in settings
    assert all(chart["cache_timeout"] is None for chart in exported("charts").values())
