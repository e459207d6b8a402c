"""Files dropped into `incoming`: landed and moved away, or left for somebody to look at."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from collectors.__main__ import main
from collectors.incoming import deliveries
from warehouse.home import Home
from warehouse.landing.outcomes import landed_tables

NODES = "cluster,node,seen_at\nc1,n1,2026-11-02T00:00:00Z\n"
WITHOUT_CLUSTER = "node,seen_at\nn1,2026-11-02T00:00:00Z\n"


@pytest.fixture
def incoming(home: Path) -> Path:
    return home / "incoming"


def drop(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["incoming", *arguments])


def landed() -> dict[str, int]:
    return {record.table_name: record.rows_landed for record in landed_tables(Home.from_environment().raw) if record.rows_landed}


def test_a_landed_file_moves_to_done_and_is_not_landed_again(incoming: Path) -> None:
    dropped = drop(incoming / "nodes" / "today.csv", NODES)
    assert run().exit_code == 0
    assert landed() == {"nodes": 1}
    assert not dropped.exists()
    assert (incoming / "done" / "nodes" / "today.csv").read_text() == NODES
    assert "nothing waits" in run().output


def test_a_folder_below_the_table_names_the_cluster(incoming: Path) -> None:
    drop(incoming / "nodes" / "c7" / "today.csv", "cluster," + WITHOUT_CLUSTER.replace("n1", ",n1"))
    assert run().exit_code == 0
    assert [record.through for record in landed_tables(Home.from_environment().raw)] == [{"c7": "2026-11-02T00:00:00"}]


def test_an_unreadable_file_stays_and_fails_the_command_while_the_others_land(incoming: Path) -> None:
    bad = drop(incoming / "nodes" / "a_bad.csv", "no,such,columns\n1,2,3\n")
    drop(incoming / "nodes" / "good.csv", NODES)
    assert run().exit_code == 1
    assert bad.exists()
    assert landed() == {"nodes": 1}


def test_rows_that_break_the_shape_are_quarantined_and_the_file_is_done(incoming: Path) -> None:
    dropped = drop(incoming / "nodes" / "today.csv", NODES + "c1,,2026-11-02T00:00:00Z\n")
    assert run().exit_code == 4
    assert landed() == {"nodes": 1}
    assert not dropped.exists()


def test_a_file_that_is_still_being_written_is_left_alone(incoming: Path) -> None:
    for name in (".today.csv", "today.csv.tmp", "today.csv.part"):
        drop(incoming / "nodes" / name, NODES)
    assert run().exit_code == 0
    assert landed() == {}


def test_kinds_can_be_landed_one_at_a_time(incoming: Path) -> None:
    drop(incoming / "nodes" / "today.csv", NODES)
    drop(incoming / "billing" / "bill.csv", "not,a,bill\n")
    assert {delivery.kind for delivery in deliveries(Home.from_environment())} == {"tables", "billing"}
    assert run("tables").exit_code == 0
    assert landed() == {"nodes": 1}


def test_scrapes_of_a_cluster_are_read_in_one_call(incoming: Path) -> None:
    for minute in (0, 1):
        drop(incoming / "dcgm" / "c1" / f"2026-11-02T00-0{minute}-00Z.prom", "")
    [delivery] = deliveries(Home.from_environment(), ["dcgm"])
    assert delivery.arguments == ("dcgm", "--cluster", "c1")
    assert len(delivery.files) == 2


def test_a_folder_of_an_unknown_name_is_named_with_the_known_ones_and_holds_up_nothing(incoming: Path) -> None:
    stray = [drop(incoming / "nodez" / "today.csv", NODES), drop(incoming / "loose.csv", NODES)]
    drop(incoming / "nodes" / "today.csv", NODES)
    drop(incoming / ".DS_Store", "")
    result = run()
    assert result.exit_code == 1
    assert f"{incoming / 'nodez'}: no landing table and no source of that name; move it into" in result.output
    assert f"{incoming / 'loose.csv'}: in no folder" in result.output
    assert "node_samples" in result.output
    assert ".DS_Store" not in result.output
    assert landed() == {"nodes": 1}
    assert all(path.exists() for path in stray)
    assert run("billing").exit_code == 0, "each kind fails for what is its own"


def test_a_folder_below_the_cluster_names_the_node_of_what_nvidia_smi_printed(incoming: Path) -> None:
    for node in ("n1", "n2"):
        drop(incoming / "nvidia-smi" / "c1" / node / "gpus.csv", "timestamp,uuid\n")
    drop(incoming / "nvidia-smi" / "c1" / "loose.csv", "timestamp,uuid\n")
    found = deliveries(Home.from_environment().create(), ["nvidia-smi"])
    assert sorted((delivery.arguments[3:], len(delivery.files)) for delivery in found) == [
        ((), 1),
        (("--node", "n1"), 1),
        (("--node", "n2"), 1),
    ]


def test_a_link_is_not_followed_and_keeps_the_command_failing(incoming: Path, tmp_path: Path) -> None:
    """Whoever may drop a file could have any file of the pipeline's account read, and moved away, by a link to it."""
    outside = drop(tmp_path / "elsewhere" / "nodes.csv", NODES)
    drop(incoming / "nodes" / "good.csv", NODES.replace("n1", "n2"))
    (incoming / "nodes" / "file.csv").symlink_to(outside)
    (incoming / "nodes" / "c1").symlink_to(outside.parent)
    (incoming / "runs").symlink_to(outside.parent)
    result = run()
    assert result.exit_code == 1
    assert all(f"{incoming / name}: a link" in result.output for name in ("nodes/file.csv", "nodes/c1", "runs"))
    assert landed() == {"nodes": 1}
    assert outside.read_text() == NODES


def test_a_folder_done_that_leads_elsewhere_takes_no_file(incoming: Path, tmp_path: Path) -> None:
    dropped = drop(incoming / "nodes" / "a.csv", NODES)
    (tmp_path / "elsewhere").mkdir()
    (incoming / "done").symlink_to(tmp_path / "elsewhere")
    assert run().exit_code == 1
    assert dropped.exists()
    assert list((tmp_path / "elsewhere").iterdir()) == []


PLACES = (
    "../../../escape",
    "/etc/escape",
    "..",
    ".",
    "a/../../b",
    "x" * 5000,
    "‥/escape",
    "․․/escape",
    "a\u202e/b",
    "%2e%2e/b",
    "-rf",
)


def test_names_from_input_are_data_and_never_a_place(incoming: Path, home: Path, tmp_path: Path) -> None:
    """Clusters and nodes may be called anything: every file that is written for them lies where all lie."""
    lines = "".join(f'"{name}","{name}",2026-11-02T00:00:00Z\n' for name in PLACES)
    drop(incoming / "nodes" / "a.csv", "cluster,node,seen_at\n" + lines)
    assert run().exit_code == 0
    assert landed() == {"nodes": len(PLACES)}
    scrape = '# TYPE DCGM_FI_DEV_GPU_UTIL gauge\nDCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",modelName="H100",Hostname="%s"} 50\n'
    for number, name in enumerate(PLACES):
        saved = drop(tmp_path / f"2026-11-02T00-{number:02d}-00Z.prom", scrape % name)
        result = CliRunner().invoke(main, ["dcgm", "--cluster", name, str(saved)])
        assert result.exit_code in (0, 4), (name, result.output)
    written = {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*") if path.is_file()}
    assert written == {"home", *(f"2026-11-02T00-{number:02d}-00Z.prom" for number in range(len(PLACES)))}
    known = {path.name for path in Home.from_environment().create().root.iterdir()} | {"incoming"}
    assert {path.name for path in home.iterdir()} == known
    assert not any("escape" in name for name in known)
    for root in (home / "raw", home / "state"):
        assert not [path for path in root.rglob("*escape*") if "-" not in path.name]
    assert {path.name for path in (home / "raw").iterdir()} == {".staging", "dcgm", "import"}


@pytest.mark.parametrize("name", ["../runs", "/etc/passwd", "runs\0", "Runs", "runs/..", "r" * 300])
def test_a_table_that_is_no_landing_table_is_refused(home: Path, tmp_path: Path, name: str) -> None:
    result = CliRunner().invoke(main, ["import", name, str(drop(tmp_path / "a.csv", NODES))])
    assert result.exit_code == 2
    assert not (home / "raw").exists() or landed() == {}
