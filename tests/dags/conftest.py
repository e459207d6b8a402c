"""An Airflow of its own for these tests: its home in a temporary folder, set before anything of Airflow is imported."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dags.local.airflow_home import DAGS_FOLDER, adopt


@pytest.fixture(scope="session")
def airflow_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    before = dict(os.environ)
    home = tmp_path_factory.mktemp("airflow")
    adopt(home)
    yield home
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="session")
def dag_bag(airflow_home: Path) -> Any:
    """All DAGs of the project as Airflow reads them."""
    from airflow.dag_processing.dagbag import BundleDagBag

    return BundleDagBag(dag_folder=DAGS_FOLDER, bundle_path=DAGS_FOLDER, bundle_name="dags-folder")
