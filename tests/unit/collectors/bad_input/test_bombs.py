"""Files that are small on the disk and huge in memory: refused by name and limit, in bounded memory, and the rest lands."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import polars as pl
import pytest

from collectors.command import SourceFailedError
from collectors.files import unpack
from tests.conftest import PROJECT_ROOT, clean_environment
from warehouse.home import Home
from warehouse.landing.outcomes import landed_tables

#: Polars and its threads take some 250 MB before a byte is read
PEAK_BYTES = 900 << 20

LAUGHS_XML = (
    '<?xml version="1.0"?><!DOCTYPE nvidia_smi_log [<!ENTITY a "ha">'
    + "".join(f'<!ENTITY {new} "{f"&{old};" * 10}">' for old, new in zip("abcdefghi", "bcdefghij", strict=True))
    + "]><nvidia_smi_log><timestamp>&j;</timestamp></nvidia_smi_log>"
)
LAUGHS_YAML = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  namespace: ml\n  uid: u\n  labels:\n    a: &a [ha]\n" + "".join(
    f"    {new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdefghi", "bcdefghij", strict=True)
)


def bomb(megabytes: int, line: bytes = b"a" * 65_535 + b"\n") -> bytes:
    """So many megabytes of one line, packed."""
    text = io.BytesIO()
    with gzip.GzipFile(fileobj=text, mode="wb", compresslevel=9) as packed:
        block = line * ((1 << 20) // len(line))
        for _ in range(megabytes):
            packed.write(block)
    return text.getvalue()


def zipped(data: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bill.csv", data)
    return file.getvalue()


@pytest.fixture
def waiting(home: Path) -> dict[str, str]:
    """Files in `incoming` → a part of what is said about each; a good one lies beside every bad one."""
    big = bomb(72)
    header = b"cluster,node,seen_at\n"
    bad = {
        "nodes/a-lines.csv.gz": (gzip.compress(header) + big, "400 times"),
        "nodes/b-one-line.csv.gz": (gzip.compress(header) + bomb(72, b"0" * 1024), "400 times"),
        "nodes/c-archive.csv": (zipped(b"x" * (64 << 20)), "binary data"),
        "nodes/d-zstd.csv": (b"\x28\xb5\x2f\xfd" + bytes(range(8)) * 100, "binary data"),
        "slurm/c1/sacct.txt.gz": (big, "400 times"),
        "billing/bill.csv.gz": (big, "no bill"),
        "billing/bill.zip": (zipped(b"x" * (64 << 20)), "ZIP"),
        "inference/c1/2026-11-01T00-00-00Z.prom.gz": (big, "400 times"),
        "nvidia-smi/c1/n1/laughs.xml": (LAUGHS_XML.encode(), "laughs.xml"),
        "kubernetes/c2/laughs.yaml": (LAUGHS_YAML.encode(), "aliases"),
        "requests/c1/deep.jsonl": (b'{"id": ' + b"[" * 200_000 + b"\n", "deep.jsonl"),
    }
    huge = {
        "cluster": "c1",
        "scheduler": "slurm",
        "job_id": "1",
        "name": "x" * 2_000_000,
        "state": "R",
        "observed_at": "2026-11-01",
    }
    files = {name: data for name, (data, _) in bad.items()} | {
        "runs/huge.jsonl": (json.dumps(huge) + "\n" + json.dumps({**huge, "name": "good"}) + "\n").encode(),
        "nodes/good.csv": header + b"c1,n1,2026-11-02T00:00:00Z\n",
    }
    for name, data in files.items():
        path = home / "incoming" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    parquet = home / "incoming" / "node_states" / "bomb.parquet"
    parquet.parent.mkdir(parents=True)
    rows = pl.repeat("c1", 20_000_000, dtype=pl.Categorical, eager=True)
    pl.DataFrame(dict.fromkeys(("cluster", "node", "state", "started_at"), rows)).write_parquet(parquet, row_group_size=1 << 23)
    return {Path(name).name: said for name, (_, said) in bad.items()} | {
        "bomb.parquet": "rows in",
        "huge.jsonl": "1,000,000 bytes",
    }


def test_bombs_are_refused_in_bounded_memory_and_the_rest_lands(home: Path, waiting: dict[str, str]) -> None:
    command = [sys.executable, "-m", "collectors", "incoming"]
    log = home / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=PROJECT_ROOT, env=clean_environment(home), stdout=out, stderr=out)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    said = log.read_text()
    assert process.returncode == 1, said
    assert "Traceback" not in said
    assert usage.ru_maxrss * 1024 < PEAK_BYTES, f"{usage.ru_maxrss / 1024:.0f} MiB at the peak"
    lines = said.splitlines()
    missing = {name: part for name, part in waiting.items() if not any(name in line and part in line for line in lines)}
    assert missing == {}, said
    landed = {
        record.table_name: record.rows_landed for record in landed_tables(Home.from_environment().raw) if record.rows_landed
    }
    assert landed == {"nodes": 1, "runs": 1}


def test_text_that_packs_well_is_no_bomb() -> None:
    scrape = b'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1"} 17\n' * 20_000
    assert unpack(gzip.compress(scrape), "a.prom.gz") == scrape
    packed = bomb(72)
    with pytest.raises(SourceFailedError, match=r"a\.gz: unpacks to more than 400 times"):
        unpack(packed, "a.gz")
