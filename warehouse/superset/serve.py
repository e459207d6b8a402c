"""Prepare Superset and serve it: the metadata database, the administrator, the published database, the dashboard.

Run by the interpreter of Superset's own environment, by `python -m warehouse.superset`:

    serve.py serve FOLDER ASSETS PUBLISHED_DATABASE PORT
    serve.py export FOLDER ASSETS SLUG

FOLDER holds `secret_key` and `admin_password` and gets the metadata database and, when the server listens, `ready`.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

#: what stands in the exported database's YAML for the file of this machine
PLACEHOLDER = "duckdb:////published/current/gpu_net.duckdb?access_mode=read_only"
ADMINISTRATOR = "admin"


def read_assets(folder: Path, database: Path) -> dict[str, str]:
    """The export's files by their path in it, with the address of the published database put in."""
    uri = f"duckdb:///{quote(str(database))}?access_mode=read_only"
    files = sorted(path for path in folder.rglob("*.yaml"))
    found = {str(path.relative_to(folder)): path.read_text().replace(PLACEHOLDER, uri) for path in files}
    # the files lie as Superset exports a dashboard, so that a person can import them by hand; they are loaded as assets
    found["metadata.yaml"] = re.sub(r"(?m)^type: .*$", "type: assets", found["metadata.yaml"])
    return found


def prepare(app: Any, folder: Path, assets: dict[str, str]) -> None:
    """Bring the metadata database up to date and load the export over what is there."""
    from flask_migrate import upgrade
    from superset import db, security_manager
    from superset.commands.importers.v1.assets import ImportAssetsCommand
    from superset.utils.core import override_user

    upgrade()
    password = (folder / "admin_password").read_text().strip()
    user = security_manager.find_user(ADMINISTRATOR)
    if user is None:
        # what `superset init` does: without it even an administrator may see nothing
        app.appbuilder.add_permissions(update_perms=True)
        security_manager.sync_role_definitions()
        role = security_manager.find_role("Admin")
        user = security_manager.add_user(ADMINISTRATOR, "GPU", "Net", "admin@localhost.localdomain", role, password=password)
    else:
        security_manager.reset_password(user.id, password)
    with override_user(user):
        # unlike the import of a dashboard it renews charts and datasets that are there already
        ImportAssetsCommand(assets).run()
    db.session.commit()
    db.session.remove()
    db.engine.dispose()


def serve(app: Any, folder: Path, port: int) -> None:
    """Serve until the process is ended."""
    from gunicorn.app.base import BaseApplication

    class Server(BaseApplication):  # type: ignore[misc]
        def load_config(self) -> None:
            settings = {
                **{"bind": f"127.0.0.1:{port}", "workers": 1, "worker_class": "gthread", "threads": 8, "timeout": 120},
                "control_socket_disable": True,
                # the worker is a fork of a process that has used DuckDB, and crashes while it tidies up threads it never had
                "worker_exit": lambda _server, _worker: os._exit(0),
                "when_ready": lambda _: (folder / "ready").touch(),
            }
            for name, value in settings.items():
                self.cfg.set(name, value)

        def load(self) -> Any:
            return app

    Server().run()


def make_app(folder: Path) -> Any:
    """Superset with the settings beside this file."""
    os.environ["GPU_NET_SUPERSET_FOLDER"] = str(folder)
    os.environ["SUPERSET_CONFIG_PATH"] = str(Path(__file__).with_name("settings.py"))
    from superset.app import create_app

    return create_app()


def write_assets(folder: Path, slug: str) -> None:
    """Write the dashboard as it is in the metadata database over the export in `folder`, without what is of this machine."""
    from superset import db, security_manager
    from superset.commands.dashboard.export import ExportDashboardsCommand
    from superset.models.dashboard import Dashboard
    from superset.utils.core import override_user

    with override_user(security_manager.find_user(ADMINISTRATOR)):
        dashboard = db.session.query(Dashboard).filter_by(slug=slug).one()
        files = {name: content() for name, content in ExportDashboardsCommand([dashboard.id]).run()}
    for old in folder.rglob("*.yaml"):
        old.unlink()
    for name, text in files.items():
        text = re.sub(r"(?m)^sqlalchemy_uri: .*$", f"sqlalchemy_uri: {PLACEHOLDER}", text)
        text = re.sub(r"(?m)^timestamp: .*$", "timestamp: '2026-01-01T00:00:00+00:00'", text)
        # the number in a name is another one in every Superset
        path = folder / re.sub(r"^((?:charts|dashboards|datasets)/.*)_\d+\.yaml$", r"\1.yaml", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def main(command: str, folder: Path, assets: Path, *more: str) -> None:
    app = make_app(folder)
    with app.app_context():
        if command == "export":
            write_assets(assets, *more)
            return
        prepare(app, folder, read_assets(assets, Path(more[0])))
    serve(app, folder, int(more[1]))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:])
