"""`make docs`: one page that a browser opens from a file, with models, readers and metrics in it, and no one else asked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from warehouse.project_docs import docs_command

pytestmark = pytest.mark.integration


def test_docs_are_one_page_with_every_model_reader_and_metric(tmp_path: Path) -> None:
    page = tmp_path / "made" / "docs.html"
    done = CliRunner().invoke(docs_command, ["--to", str(page)])
    assert done.exit_code == 0, done.output
    text = page.read_text()
    for part in ("model.gpu_net.mart_gpu_net_daily", "exposure.gpu_net.report", "metric.gpu_net.cost_per_million_tokens"):
        assert part in text
    assert not re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=[\"']?https?:", text)
    assert str(tmp_path) not in text
    assert [path.name for path in page.parent.iterdir()] == ["docs.html"]
