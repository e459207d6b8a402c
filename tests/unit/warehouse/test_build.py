"""What dbt read of the project is kept for the next build, and let go of where it is about another folder."""

from __future__ import annotations

from pathlib import Path

import msgpack
import pytest

from warehouse import build


@pytest.mark.parametrize("folder", ["/opt/gpu-net/dbt_project", f"/srv/{'x' * 60}/dbt_project", f"/srv/{'é/' * 150}dbt_project"])
def test_a_project_that_moved_is_read_anew(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home outlives the checkout that built it: what was read in the old folder names files that are no longer there."""
    parsed = tmp_path / "partial_parse.msgpack"
    parsed.write_bytes(msgpack.packb({"nodes": {"seed": {"root_path": folder, "depends_on": {}}}}))
    monkeypatch.setattr(build, "DBT_PROJECT", Path(folder))
    build.forget_moved(parsed)
    assert parsed.exists()
    for other in ("/gpu-net/dbt_project", f"{folder}-2", str(Path(folder).parent)):
        monkeypatch.setattr(build, "DBT_PROJECT", Path(other))
        build.forget_moved(parsed)
        assert not parsed.exists()
        parsed.write_bytes(msgpack.packb({"nodes": {"seed": {"root_path": folder}}}))


def test_nothing_read_yet_is_nothing_to_forget(tmp_path: Path) -> None:
    build.forget_moved(tmp_path / "partial_parse.msgpack")
