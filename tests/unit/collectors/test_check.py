from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from collectors.check import check, look_at_endpoint, look_at_gpus, look_at_kubernetes, look_at_landing_root
from warehouse.home import Home


class NVMLError(Exception):
    pass


def nvml(*, driver: bool = True, split: bool = False, lost: bool = False, gpm: bool = False) -> Any:
    """A stand-in for pynvml with two H100, the second lost if `lost`."""

    def init() -> None:
        if not driver:
            raise NVMLError("Driver Not Loaded")

    def handle(index: int) -> int:
        if lost and index == 1:
            raise NVMLError("GPU is lost")
        return index

    return SimpleNamespace(
        NVMLError=NVMLError,
        NVML_DEVICE_MIG_ENABLE=1,
        nvmlInit=init,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=handle,
        nvmlDeviceGetName=lambda _: "NVIDIA H100 80GB HBM3",
        nvmlSystemGetDriverVersion=lambda: "570.1",
        nvmlDeviceGetMigMode=lambda _: (1 if split else 0, 0),
        nvmlGpmQueryDeviceSupport=lambda _: SimpleNamespace(isSupportedDevice=int(gpm)),
    )


def test_without_a_driver_the_remedy_is_named() -> None:
    (finding,) = look_at_gpus(lambda: nvml(driver=False))
    assert finding.status == "missing"
    assert "Driver Not Loaded" in finding.line()
    assert "modprobe nvidia" in finding.line()


def test_gpus_are_counted_by_model() -> None:
    (finding,) = look_at_gpus(nvml)
    assert finding.line() == "ok       nvml: 2 × NVIDIA H100 80GB HBM3, driver 570.1"


def test_mig_without_gpm_hides_utilisation_and_the_way_out_is_named() -> None:
    _, finding = look_at_gpus(lambda: nvml(split=True))
    assert (finding.name, finding.status) == ("mig", "missing")
    assert "2 GPUs without GPM" in finding.detail
    assert "DCGM" in finding.remedy


def test_mig_on_cards_with_gpm_is_no_finding_to_act_on() -> None:
    _, finding = look_at_gpus(lambda: nvml(split=True, gpm=True))
    assert finding.line() == "ok       mig: on for 2 GPUs: `collectors nvml` reads their instances through GPM"


def test_a_lost_gpu_is_named_and_the_other_is_counted() -> None:
    first, second = look_at_gpus(lambda: nvml(lost=True))
    assert first.detail.startswith("1 × NVIDIA H100")
    assert "GPU 1 (GPU is lost)" in second.detail


def test_without_the_library_the_remedy_is_to_install_it() -> None:
    def absent() -> Any:
        raise ImportError

    assert look_at_gpus(absent)[0].remedy == "pip install nvidia-ml-py"


@pytest.fixture
def server() -> Iterator[str]:
    """`/metrics` answers like an exporter, `/other` like something else, all else is 404."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = {"/metrics": b"DCGM_FI_DEV_GPU_UTIL 1\n", "/other": b"up 1\n", "/page": b"<html>"}.get(self.path)
            self.send_response(404 if body is None else 200)
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, format: str, *args: object) -> None: ...

    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{listening.server_port}"
    listening.shutdown()
    listening.server_close()


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [("/metrics", "ok", "/metrics"), ("/other", "missing", "without a DCGM field"), ("/none", "missing", "404")],
)
def test_an_exporter_is_one_that_answers_with_dcgm_fields(server: str, path: str, status: str, text: str) -> None:
    finding = look_at_endpoint("dcgm-exporter", server + path, "--dcgm-url")
    assert finding.status == status
    assert text in finding.line()


def test_an_inference_server_is_one_that_answers_with_metrics(server: str) -> None:
    assert look_at_endpoint("inference", f"{server}/other", "--inference-url").status == "ok"
    finding = look_at_endpoint("inference", f"{server}/page", "--inference-url")
    assert (finding.status, finding.remedy) == ("missing", "give the address of its /metrics")


def test_an_api_server_that_refuses_and_one_that_is_nowhere_are_missing_with_a_remedy(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = look_at_kubernetes(server)
    assert (refused.status, refused.detail.startswith("/api/v1/pods")) == ("missing", True)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert "in-cluster.yaml" in look_at_kubernetes(None).remedy


@pytest.mark.parametrize("url", [None, "http://me:hunter2@127.0.0.1:9/metrics", "not an address", "http://[::1"])
def test_an_address_that_is_absent_or_wrong_is_missing_with_a_remedy(url: str | None) -> None:
    finding = look_at_endpoint("dcgm-exporter", url, "--dcgm-url")
    assert finding.status == "missing"
    assert finding.remedy
    assert "hunter2" not in finding.line()


def test_a_landing_root_that_cannot_be_written_is_the_one_failure(tmp_path: Path) -> None:
    assert look_at_landing_root(Home(tmp_path, tmp_path / "raw")).status == "ok"
    blocked = Home(Path("/proc/nowhere"), Path("/proc/nowhere/raw"))
    assert look_at_landing_root(blocked).status == "failed"
    assert "GPU_NET_HOME" in look_at_landing_root(blocked).remedy


def test_check_writes_nothing_prints_a_line_each_and_keeps_the_key_to_itself(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_NET_USER_KEY", "a-secret-key")
    result = CliRunner().invoke(check, ["--cluster", "c"])
    assert result.exit_code == 0
    assert "ok       GPU_NET_CLUSTER: c" in result.output
    assert "a-secret-key" not in result.output
    assert not home.exists()
    monkeypatch.delenv("GPU_NET_CLUSTER")
    found = json.loads(CliRunner().invoke(check, ["--json"]).stdout)
    assert {"nvml", "sacct", "landing root", "GPU_NET_CLUSTER"} <= {finding["name"] for finding in found}
    assert all(finding["remedy"] for finding in found if finding["status"] != "ok")


def test_check_exits_1_only_where_nothing_can_be_landed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_NET_HOME", "/proc/nowhere")
    assert CliRunner().invoke(check, []).exit_code == 1
