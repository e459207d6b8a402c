"""What is read but not landed yet: a spool survives what happens to the agent and the disk, and lands exactly once."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from collectors.nvml import spool
from collectors.nvml.land import main
from warehouse.home import Home

HEADER = {"cluster": "c", "node": "n", "from": "2026-11-01T10:00:00.000Z", "interval_ms": 10_000, "driver": "570"}


def sample(second: int, **values: Any) -> spool.Line:
    row = {
        "gpu_uuid": "GPU-0",
        "slot_uuid": None,
        "interval_start_at": f"2026-11-01T10:00:{second:02d}.000Z",
        "interval_ms": 10_000,
    }
    return "gpu_samples", row | {"gpu_utilization_ratio": 0.5, "missing": {"sm_active_ratio": "not_supported"}} | values


def write(folder: Path, *lines: spool.Line, until: str | None = "2026-11-01T10:00:20.000Z") -> Path:
    written = spool.Spool(folder, HEADER)
    written.write(lines)
    if until:
        assert written.close(until)
    return written.path


def landed(home: Path, table: str) -> list[dict[str, Any]]:
    paths = sorted((home / "raw" / "nvml" / table).glob("dt=*/*.parquet"))
    return pl.read_parquet(paths).to_dicts() if paths else []


def test_a_spool_lands_as_one_file_with_its_window_and_is_removed(home: Path, tmp_path: Path) -> None:
    path = write(tmp_path, sample(0), sample(10), ("hole", {"what": "2026-11-01T09:00:00Z/…", "why": "no driver answers"}))
    assert main([str(path)]) == 0
    assert not path.exists()
    rows = landed(home, "gpu_samples")
    assert [(row["cluster"], row["node"], row["source"], row["interval_ms"]) for row in rows] == [("c", "n", "nvml", 10_000)] * 2
    assert json.loads(rows[0]["missing"]) == {"sm_active_ratio": "not_supported"}
    (record,) = landed(home, "collection_runs")
    assert record["window_start_at"].isoformat() == "2026-11-01T10:00:00"
    assert record["data_through_at"].isoformat() == "2026-11-01T10:00:20"
    assert json.loads(record["gaps"]) == {"2026-11-01T09:00:00Z/…": "no driver answers"}
    assert record["source_version"] == "570"


def test_a_spool_that_was_landed_but_not_removed_lands_nothing_twice(home: Path, tmp_path: Path) -> None:
    path = write(tmp_path, sample(0), sample(10))
    kept = path.read_bytes()
    assert main([str(path)]) == 0
    files = sorted(str(file) for file in (home / "raw").rglob("*.parquet"))
    path.write_bytes(kept)
    assert main([str(path)]) == 0
    assert not path.exists()
    assert sorted(str(file) for file in (home / "raw").rglob("*.parquet")) == files


def test_a_line_torn_by_a_kill_is_left_out_and_the_rows_tell_the_end(home: Path, tmp_path: Path) -> None:
    path = write(tmp_path, sample(0), sample(10), until=None)
    with path.open("ab") as file:
        file.write(b'["gpu_samples",{"gpu_uuid":"GPU-0","inter')
    assert main([str(path)]) == 0
    assert len(landed(home, "gpu_samples")) == 2
    assert landed(home, "collection_runs")[0]["data_through_at"].isoformat() == "2026-11-01T10:00:20"


def test_a_line_that_a_disk_spoiled_is_quarantined_with_its_number(home: Path, tmp_path: Path) -> None:
    path = write(tmp_path, sample(0), sample(10))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"\x00\xff\x00\n", *lines[2:]]))
    assert main([str(path)]) == 0
    assert len(landed(home, "gpu_samples")) == 2
    quarantined = pl.read_parquet(sorted((home / "quarantine").rglob("*.parquet"))).to_dicts()
    assert [(row["line"], row["reason"]) for row in quarantined] == [(3, "malformed")]


def test_a_spool_without_a_beginning_or_without_rows_is_removed(home: Path, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\x00" * 100)
    empty = write(tmp_path)
    assert main([str(tmp_path / "a.jsonl"), str(empty), str(tmp_path / "none.jsonl")]) == 0
    assert list(tmp_path.glob("*.jsonl")) == []
    assert landed(home, "collection_runs") == []


def test_after_the_clock_was_set_back_what_is_told_again_stands(home: Path, tmp_path: Path) -> None:
    note: spool.Line = ("note", {"text": "the clock was set back by 3600 s", "is_rewound": True})
    path = write(tmp_path, sample(0), sample(10), note, sample(0, gpu_utilization_ratio=0.9))
    assert main([str(path)]) == 0
    rows = sorted(landed(home, "gpu_samples"), key=lambda row: row["interval_start_at"])
    assert [row["gpu_utilization_ratio"] for row in rows] == [0.9, 0.5]


def test_a_landing_root_that_cannot_be_written_keeps_the_spool(home: Path, tmp_path: Path, capsys: Any) -> None:
    Home.from_environment().create()
    (home / "raw" / "nvml").mkdir()
    (home / "raw" / "nvml" / "gpu_samples").write_text("in the way")
    path = write(tmp_path, sample(0))
    assert main([str(path)]) == 1
    assert path.exists()
    assert "cannot write" in capsys.readouterr().err


def test_a_full_disk_holds_lines_back_until_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = spool.Spool(tmp_path, HEADER)
    real = os.write

    def half(descriptor: int, data: bytes) -> int:
        return real(descriptor, data[: len(data) // 2])

    monkeypatch.setattr(os, "write", half)
    written.write([sample(0)])
    assert written.trouble
    monkeypatch.setattr(os, "write", real)
    written.write([sample(10)])
    assert written.trouble is None
    assert written.close("2026-11-01T10:00:20.000Z")
    kinds = [line[0] for line in spool.read(written.path) if isinstance(line, tuple)]
    assert kinds == ["begin", "gpu_samples", "gpu_samples", "end"]


def test_what_a_full_disk_costs_in_the_end_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "MOST_HELD", 3)
    real = os.write

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    written = spool.Spool(tmp_path, HEADER)
    for second in range(9):
        written.write([sample(second)])
    monkeypatch.setattr(os, "write", real)
    written.close("2026-11-01T10:00:20.000Z")
    lines = [line for line in spool.read(written.path) if isinstance(line, tuple)]
    assert [line[0] for line in lines] == ["begin", "gpu_samples", "gpu_samples", "note", "end"]
    assert "7 rows were dropped" in lines[3][1]["text"]


def test_spools_beyond_the_limit_go_oldest_first_and_are_named(tmp_path: Path) -> None:
    # numbers tell which is older, since the clock in the rest of the name may have been set back
    names = ["000008-20261101.jsonl", "000009-20261031.jsonl", "000010-20261101.jsonl"]
    for name in names:
        (tmp_path / name).write_bytes(b"x" * 100)
    (lost,) = spool.make_room(tmp_path, tmp_path / names[2], limit=150)
    assert lost.startswith(f"{names[0]} was removed unlanded")
    assert sorted(path.name for path in tmp_path.glob("*.jsonl")) == names[1:]
    assert spool.Spool(tmp_path, HEADER).path.name.startswith("000011-")


def test_what_the_last_agent_kept_may_be_unreadable(tmp_path: Path) -> None:
    assert spool.load(tmp_path) == {}
    (tmp_path / "devices.json").write_text("{")
    assert spool.load(tmp_path) == {}
    spool.save(tmp_path, {"boot_id": "b"})
    assert spool.load(tmp_path) == {"boot_id": "b"}
