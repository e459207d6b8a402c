"""Many small files become few, and at no moment does a reader see a row twice or not at all."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tests.unit.warehouse.landing.test_landings import read_current, samples, tree
from warehouse.home import Home
from warehouse.landing import compaction, leftovers
from warehouse.landing.compaction import compact, compact_outcomes
from warehouse.landing.landings import Landing, LandingError
from warehouse.landing.outcomes import current_files, is_committed, landed_tables, outcome_files, outcome_frame
from warehouse.landing.shape import TABLES

KEY = list(TABLES["gpu_samples"].key)


@pytest.fixture
def landing(home: Path) -> Landing:
    """Three devices, each landed hour by hour in a file of its own: 12 files of 15 rows."""
    landing = Landing(Home.from_environment())
    for gpu in ("GPU-3", "GPU-1", "GPU-2"):
        rows = samples(60, gpu=gpu)
        for part in range(4):
            landing.land("test", {"gpu_samples": rows[part * 15 : part * 15 + 15]})
    return landing


def files_of(home: Home) -> list[str]:
    return [file for _, file in current_files(landed_tables(home.raw))]


def test_small_files_become_one_sorted_file_with_the_same_rows(landing: Landing) -> None:
    before = read_current(landing.home)
    outcome = compact(landing.home)
    after = read_current(landing.home)
    assert (outcome.merges[0].files_before, outcome.merges[0].files_after, len(files_of(landing.home))) == (12, 1, 1)
    assert_frame_equal(after, before.sort(KEY), check_column_order=False)
    assert "12 files of 1 partitions became 1 (180 rows)" in outcome.summary()


def test_compacting_again_changes_nothing(landing: Landing) -> None:
    compact(landing.home)
    before = tree(landing.home.raw)
    assert compact(landing.home).merges == []
    assert tree(landing.home.raw) == before


def test_a_reader_that_holds_the_old_list_keeps_working_until_the_grace_is_over(landing: Landing) -> None:
    held = files_of(landing.home)
    compact(landing.home)
    assert all((landing.home.raw / file).exists() for file in held)
    compact(landing.home)
    assert all((landing.home.raw / file).exists() for file in held)
    outcome = compact(landing.home, grace=timedelta(microseconds=1))
    assert outcome.files_deleted == 12
    assert not any((landing.home.raw / file).exists() for file in held)
    assert read_current(landing.home).height == 180


def test_replaced_files_can_be_deleted_at_once(landing: Landing) -> None:
    held = files_of(landing.home)
    assert compact(landing.home, delete_now=True).files_deleted == 12
    assert not any((landing.home.raw / file).exists() for file in held)
    assert read_current(landing.home).height == 180


def test_a_compaction_lands_nothing_and_moves_no_horizon(landing: Landing) -> None:
    compact(landing.home)
    (record,) = [record for record in landed_tables(landing.home.raw) if record.source == "compaction"]
    assert (record.status, record.rows_landed, record.through, len(record.removed_files)) == ("compacted", 0, {}, 12)


def test_landing_what_has_been_compacted_is_still_known(landing: Landing) -> None:
    compact(landing.home, delete_now=True)
    before = tree(landing.home.raw)
    assert landing.land("test", {"gpu_samples": samples(60, gpu="GPU-1")[:15]}).status == "already_landed"
    assert tree(landing.home.raw) == before


def test_of_rows_with_one_key_the_one_landed_last_stays(landing: Landing) -> None:
    corrected = samples(20, gpu="GPU-1").with_columns(sm_active_ratio=0.9)
    run_id = landing.land("test", {"gpu_samples": corrected}).collection_run_id
    outcome = compact(landing.home)
    rows = read_current(landing.home)
    assert (outcome.merges[0].rows_before, outcome.merges[0].rows_after) == (200, 180)
    assert "20 duplicates left out" in outcome.summary()
    assert rows.filter(pl.col("sm_active_ratio") == 0.9).height == 20
    assert set(rows.filter(pl.col("sm_active_ratio") == 0.9)["collection_run_id"]) == {run_id}


def test_a_large_partition_becomes_several_files_read_at_about_one_time(landing: Landing) -> None:
    before = read_current(landing.home)
    outcome = compact(landing.home, target_rows=60)
    files = files_of(landing.home)
    heights = [pl.read_parquet(landing.home.raw / file).height for file in files]
    assert outcome.merges[0].files_after == len(files) == 3
    assert sum(heights) == 180
    assert max(heights) <= 75
    assert_frame_equal(read_current(landing.home).sort(KEY), before.sort(KEY), check_column_order=False)
    assert compact(landing.home, target_rows=60).merges == []


def test_a_late_row_does_not_rewrite_the_large_files_of_its_day(landing: Landing) -> None:
    compact(landing.home, target_rows=60)
    large = files_of(landing.home)
    for gpu in ("GPU-8", "GPU-9"):
        landing.land("test", {"gpu_samples": samples(1, gpu=gpu)})
    assert compact(landing.home, target_rows=60).merges[0].files_before == 2
    assert set(large) < set(files_of(landing.home))


def test_files_landed_just_now_wait(landing: Landing) -> None:
    assert compact(landing.home, older_than=timedelta(hours=1)).merges == []
    assert len(compact(landing.home, older_than=timedelta(seconds=-1)).merges) == 1


def test_days_tables_and_references_are_kept_apart(landing: Landing) -> None:
    for gpu in ("GPU-1", "GPU-2"):
        landing.land("test", {"gpu_samples": samples(3, day="2026-11-05", gpu=gpu)})
    for price in ("1.0", "2.0"):
        card = {"gpu_model": "H100", "currency": "USD", "cost_per_gpu_hour": price, "valid_from": "2026-01-01"}
        landing.land("import", {"rate_cards": pl.DataFrame([card])})
    merges = compact(landing.home).merges
    assert [(merge.table_name, merge.day, merge.rows_after) for merge in merges] == [
        ("gpu_samples", "2026-11-01", 180),
        ("gpu_samples", "2026-11-05", 6),
    ]
    assert sum("rate_cards" in file for file in files_of(landing.home)) == 2


def test_a_file_without_the_newest_columns_is_merged_with_nulls(landing: Landing) -> None:
    old = landing.home.raw / files_of(landing.home)[0]
    pl.read_parquet(old, hive_partitioning=False).drop("xid").write_parquet(old)
    compact(landing.home)
    assert read_current(landing.home)["xid"].null_count() == 180


def test_a_full_disk_leaves_the_small_files(landing: Landing, monkeypatch: pytest.MonkeyPatch) -> None:
    before = read_current(landing.home)

    def no_space(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(compaction, "write_outcome", no_space)
    with pytest.raises(LandingError, match="No space left"):
        compact(landing.home)
    monkeypatch.undo()
    assert_frame_equal(read_current(landing.home), before)


def test_files_of_a_killed_writer_go_after_a_day_and_what_a_user_put_there_stays(
    landing: Landing, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = (landing.home.raw / files_of(landing.home)[0]).parent
    orphan = folder / f"20261101T000000-20261101T000000-{'a' * 20}-000.parquet"
    quarantined = landing.home.quarantine / "test" / "dt=2026-11-01" / f"test-{'a' * 20}.parquet"
    own = folder / "mine.parquet"
    quarantined.parent.mkdir(parents=True)
    for path in (orphan, quarantined, own):
        path.write_bytes(b"x")
    compact(landing.home)
    assert orphan.exists()
    monkeypatch.setattr(leftovers, "STALE_SECONDS", -1)
    compact(landing.home)
    assert (orphan.exists(), quarantined.exists(), own.exists()) == (False, False, True)
    assert read_current(landing.home).height == 180


def test_outcome_records_become_one_file_that_says_the_same(landing: Landing) -> None:
    before = landed_tables(landing.home.raw)
    run_id = before[0].collection_run_id
    assert compact_outcomes(landing.home.raw, at_least=2) == 12
    assert len(outcome_files(landing.home.raw)) == 13
    assert landed_tables(landing.home.raw) == before
    compact_outcomes(landing.home.raw, grace=timedelta(0), at_least=2)
    assert len(outcome_files(landing.home.raw)) == 1
    assert landed_tables(landing.home.raw) == before
    assert is_committed(landing.home.raw, "test", run_id)
    assert not is_committed(landing.home.raw, "test", "test-0")
    assert landing.land("test", {"gpu_samples": samples(60, gpu="GPU-3")[:15]}).status == "already_landed"


def test_a_later_merge_of_outcome_records_takes_in_the_earlier_one(landing: Landing) -> None:
    compact_outcomes(landing.home.raw, grace=timedelta(0), at_least=2)
    for gpu in ("GPU-8", "GPU-9"):
        landing.land("test", {"gpu_samples": samples(1, gpu=gpu)})
    before = landed_tables(landing.home.raw)
    assert compact_outcomes(landing.home.raw, grace=timedelta(0), at_least=2) == 2
    assert len(outcome_files(landing.home.raw)) == 1
    assert landed_tables(landing.home.raw) == before


def test_a_record_that_goes_while_it_is_read_is_read_from_the_merged_file(
    landing: Landing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is listed, then the records are merged and removed, then they are read."""
    raw = landing.home.raw
    expected = outcome_frame(raw)
    stale = outcome_files(raw)
    compact_outcomes(raw, grace=timedelta(0), at_least=2)
    listings = [stale]
    monkeypatch.setattr("warehouse.landing.outcomes.outcome_files", lambda *_: listings.pop() if listings else outcome_files(raw))
    found = outcome_frame(raw)
    assert expected is not None
    assert found is not None
    assert_frame_equal(found.sort("collection_run_id"), expected.sort("collection_run_id"))


def test_temporary_names_are_no_outcomes(landing: Landing) -> None:
    path = outcome_files(landing.home.raw)[0]
    os.link(path, path.with_name(f".tmp-{'0' * 32}-x.parquet"))
    assert len(outcome_files(landing.home.raw)) == 12
