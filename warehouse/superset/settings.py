"""Superset's settings for one machine: SQLite, no cache of answers, its files in the folder that `serve` is given."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(os.environ["GPU_NET_SUPERSET_FOLDER"])

SECRET_KEY = (FOLDER / "secret_key").read_text().strip()
SQLALCHEMY_DATABASE_URI = f"sqlite:///{FOLDER / 'superset.db'}"
DATA_DIR = str(FOLDER)
# an answer that is kept would outlive the publication it came from
CACHE_CONFIG = DATA_CACHE_CONFIG = {"CACHE_TYPE": "NullCache"}
# state of filters and of charts that are being edited: in the metadata database, where a restart does not lose it
FILTER_STATE_CACHE_CONFIG = EXPLORE_FORM_DATA_CACHE_CONFIG = {
    "CACHE_TYPE": "SupersetMetastoreCache",
    "CACHE_DEFAULT_TIMEOUT": 86400,
}
RATELIMIT_STORAGE_URI = "memory://"
ROW_LIMIT = 50_000
# the server listens on this machine only, without TLS; a proxy with TLS in front of it wants these
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = False
APP_NAME = "GPU Net"
