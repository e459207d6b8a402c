"""`python -m collectors check`: what this machine can see, one line each, with the remedy for what is missing."""

from __future__ import annotations

import json
import os
import shutil
import string
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import click

from collectors import http
from collectors.command import SourceFailedError
from collectors.files import decode
from warehouse.home import Home

#: below this much room a landing is likely to fail soon: a day of 1,000 GPUs at 10 s is about 0.5 GB
LOW_SPACE_BYTES = 2 << 30
TIMEOUT_SECONDS = 3.0

#: settings that stand for an option below
VARIABLES = ("GPU_NET_DCGM_URL", "GPU_NET_PROMETHEUS_URL", "GPU_NET_KUBERNETES_URL")

#: command → what it is for
COMMANDS = {
    "sacct": "Slurm's accounting: `collectors slurm`",
    "scontrol": "Slurm's node states and GPU indices: `collectors slurm`",
    "sinfo": "Slurm's node states: `collectors slurm`",
    "kubectl": "Kubernetes from outside a cluster: `collectors kubernetes`",
}


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `status` is `ok`, `missing` (something cannot be collected here) or `failed` (nothing can)."""

    name: str
    status: str
    detail: str
    remedy: str = ""

    def line(self) -> str:
        mark = {"ok": "ok     ", "missing": "missing", "failed": "FAILED "}[self.status]
        return f"{mark}  {self.name}: {self.detail}" + (f"; {self.remedy}" if self.remedy else "")


def look_at_gpus(load: Callable[[], Any] | None = None) -> list[Finding]:
    """What NVML answers: the devices, and whether MIG hides the utilisation of some."""
    try:
        nvml = (load or _pynvml)()
    except ImportError:
        return [Finding("nvml", "missing", "nvidia-ml-py is not installed", "pip install nvidia-ml-py")]
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        remedy = (
            "on a GPU host install NVIDIA's driver and load it (modprobe nvidia); in a container pass the GPUs in; "
            "elsewhere collect from dcgm-exporter or saved files"
        )
        return [Finding("nvml", "missing", f"no driver answers ({error})", remedy)]
    try:
        return _devices(nvml)
    except nvml.NVMLError as error:
        return [
            Finding("nvml", "missing", f"the driver does not tell its devices ({error})", "run nvidia-smi and read its message")
        ]
    finally:
        nvml.nvmlShutdown()


def _pynvml() -> Any:
    import pynvml

    return pynvml


def _devices(nvml: Any) -> list[Finding]:
    handles = []
    lost = []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handles.append(nvml.nvmlDeviceGetHandleByIndex(index))
        except nvml.NVMLError as error:
            lost.append(f"GPU {index} ({error})")
    names: dict[str, int] = {}
    split = hidden = 0
    for handle in handles:
        name = nvml.nvmlDeviceGetName(handle)
        names[str(name)] = names.get(str(name), 0) + 1
        if _is_split(nvml, handle):
            split += 1
            hidden += not _has_gpm(nvml, handle)
    listed = ", ".join(f"{count} × {name}" for name, count in sorted(names.items())) or "no device"
    driver = nvml.nvmlSystemGetDriverVersion()
    findings = [Finding("nvml", "ok" if handles else "missing", f"{listed}, driver {driver}")]
    if lost:
        findings.append(
            Finding("gpus", "missing", f"not readable: {', '.join(lost)}", "see dmesg for Xid; reset or replace the card")
        )
    if hidden:
        remedy = "collect from dcgm-exporter (DCGM_FI_PROF_GR_ENGINE_ACTIVE)"
        findings.append(Finding("mig", "missing", f"on for {hidden} GPUs without GPM: NVML gives no utilisation of them", remedy))
    if split > hidden:
        findings.append(
            Finding("mig", "ok", f"on for {split - hidden} GPUs: `collectors nvml` reads their instances through GPM")
        )
    return findings


def _is_split(nvml: Any, handle: Any) -> bool:
    try:
        current, _ = nvml.nvmlDeviceGetMigMode(handle)
    except nvml.NVMLError:  # a card that cannot be split
        return False
    return bool(current == nvml.NVML_DEVICE_MIG_ENABLE)


def _has_gpm(nvml: Any, handle: Any) -> bool:
    try:
        return bool(nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice)
    except (nvml.NVMLError, AttributeError):  # a driver, or a pynvml, from before GPM
        return False


def look_for_commands() -> list[Finding]:
    """Which scheduler commands are on the path; they are not run."""
    findings = []
    for command, purpose in COMMANDS.items():
        place = shutil.which(command)
        remedy = "" if place else "run where it is installed, or land its saved output"
        findings.append(Finding(command, "ok" if place else "missing", place or f"not on the path ({purpose})", remedy))
    return findings


def look_at_endpoint(name: str, url: str | None, option: str, path: str = "") -> Finding:
    """Whether an address answers. One that nobody gave is missing, not wrong."""
    if not url:
        return Finding(name, "missing", "no address given", f"give {option}" + _or_variable(option))
    shown = http.without_credentials(url)
    remedy = f"start it, open the port, or correct the address in {option}"
    try:
        start = decode(http.get(url.rstrip("/") + path, timeout_seconds=TIMEOUT_SECONDS, retries=0, hint=remedy), shown)
    except SourceFailedError as error:
        detail, _, remedy = str(error).rpartition("; ")
        return Finding(name, "missing", detail, remedy)
    if name == "inference" and not start.lstrip().startswith(("#", *string.ascii_letters)):
        return Finding(name, "missing", f"{shown} answers, but not with metrics", "give the address of its /metrics")
    if name == "dcgm-exporter" and "DCGM_" not in start.upper():
        return Finding(name, "missing", f"{shown} answers, but without a DCGM field", "is it the /metrics of dcgm-exporter?")
    return Finding(name, "ok", shown)


def look_at_kubernetes(api_url: str | None) -> Finding:
    """Whether an API server lets this user list pods, nodes and events; outside a cluster `kubectl` asks it."""
    from collectors.kubernetes.client import Kubectl, find_server

    server = find_server(api_url, None, None, TIMEOUT_SECONDS)
    if isinstance(server, Kubectl) and not shutil.which("kubectl"):
        remedy = "run it in the cluster (collectors/kubernetes/in-cluster.yaml), where kubectl is, or land saved objects"
        return Finding("kubernetes", "missing", "no API server: this is no pod, and no kubectl is here", remedy)
    try:
        for path in ("/api/v1/pods", "/api/v1/nodes", "/api/v1/events"):
            server.get(path, {"limit": "1"})
    except SourceFailedError as error:
        # kubectl says the same line several times over
        return Finding("kubernetes", "missing", str(error).splitlines()[0], "see `collectors kubernetes --help`")
    return Finding("kubernetes", "ok", f"{server.target}: pods, nodes and events may be listed")


def _or_variable(option: str) -> str:
    variable = "GPU_NET_" + option.removeprefix("--").upper().replace("-", "_")
    return f", or set {variable}" if variable in VARIABLES else ""


def look_at_landing_root(home: Home) -> Finding:
    """Whether rows can be written where they belong, and how much room there is."""
    existing = next(folder for folder in (home.raw, *home.raw.parents) if folder.exists())
    remedy = "set GPU_NET_HOME (or GPU_NET_LANDING) to a folder this user may write to"
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        return Finding("landing root", "failed", f"{home.raw} cannot be written ({error.strerror})", remedy)
    free = shutil.disk_usage(existing).free
    detail = f"{home.raw}{'' if home.raw.exists() else ' (made on the first landing)'}, {free / 2**30:.1f} GiB free"
    if free < LOW_SPACE_BYTES:
        return Finding("landing root", "missing", detail, "make room, or set GPU_NET_HOME to a larger disk")
    return Finding("landing root", "ok", detail)


def look_at_settings() -> list[Finding]:
    """The settings that decide what lands, never their secret values."""
    cluster = os.environ.get("GPU_NET_CLUSTER")
    has_key = bool(os.environ.get("GPU_NET_USER_KEY"))
    return [
        Finding("GPU_NET_CLUSTER", "ok", cluster)
        if cluster
        else Finding("GPU_NET_CLUSTER", "missing", "not set", "set it, or give --cluster with each command"),
        Finding("GPU_NET_USER_KEY", "ok", "set: users are landed as keyed hashes")
        if has_key
        else Finding(
            "GPU_NET_USER_KEY", "missing", "not set: users are not landed", "set it to a secret of your own to tell users apart"
        ),
    ]


@dataclass(frozen=True)
class Addresses:
    """Where to look beyond this machine; what nobody gave is None or empty."""

    dcgm_urls: tuple[str, ...] = ()
    prometheus_url: str | None = None
    kubernetes_url: str | None = None
    inference_urls: tuple[str, ...] = ()


def look(addresses: Addresses, home: Home) -> list[Finding]:
    """Everything in the order in which a person would ask."""
    exporters: list[str | None] = [*addresses.dcgm_urls] or [None]
    servers: list[str | None] = [*addresses.inference_urls] or [None]
    return [
        *look_at_gpus(),
        *(look_at_endpoint("dcgm-exporter", url, "--dcgm-url") for url in exporters),
        look_at_endpoint("prometheus", addresses.prometheus_url, "--prometheus-url", "/api/v1/status/buildinfo"),
        *(look_at_endpoint("inference", url, "--inference-url") for url in servers),
        *look_for_commands(),
        look_at_kubernetes(addresses.kubernetes_url),
        Finding("saved files", "ok", "every collector but nvml and prometheus reads them anywhere"),
        look_at_landing_root(home),
        *look_at_settings(),
    ]


@click.command("check")
@click.option(
    "--dcgm-url",
    "dcgm_urls",
    multiple=True,
    envvar="GPU_NET_DCGM_URL",
    help="A dcgm-exporter, http://HOST:9400/metrics; may be repeated [GPU_NET_DCGM_URL, separated by spaces].",
)
@click.option("--prometheus-url", envvar="GPU_NET_PROMETHEUS_URL", help="A Prometheus-compatible API [GPU_NET_PROMETHEUS_URL].")
@click.option("--kubernetes-url", envvar="GPU_NET_KUBERNETES_URL", help="An API server, or kubectl proxy's address.")
@click.option("--inference-url", "inference_urls", multiple=True, help="Metrics of vLLM, SGLang, TGI, …; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.option("--cluster", envvar="GPU_NET_CLUSTER", help="Checked as if GPU_NET_CLUSTER were set.")
def check(
    dcgm_urls: tuple[str, ...],
    prometheus_url: str | None,
    kubernetes_url: str | None,
    inference_urls: tuple[str, ...],
    as_json: bool,
    cluster: str | None,
) -> None:
    """Say what this machine can see, and what to do about what it cannot.

    Nothing is collected or written. Exit 1 if nothing could be landed here, else 0, whatever is missing.
    """
    if cluster:
        os.environ["GPU_NET_CLUSTER"] = cluster
    findings = look(Addresses(dcgm_urls, prometheus_url, kubernetes_url, inference_urls), Home.from_environment())
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], ensure_ascii=False))
    else:
        for finding in findings:
            click.echo(finding.line())
    if any(finding.status == "failed" for finding in findings):
        sys.exit(1)
