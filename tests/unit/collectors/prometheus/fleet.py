"""A small fleet whose exporters' texts are written for any instant: two GPUs on one node, pods that come and go, one server.

The texts have the form of dcgm-exporter 3.3, kube-state-metrics 2.10 and vLLM 0.8; the values move, so that a lost or
doubled scrape shows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from prometheus_client.parser import text_string_to_metric_families

from tests.unit.collectors.prometheus.fake_api import FakePrometheus

EPOCH = datetime(1970, 1, 1)
START = datetime(2026, 3, 2, 10, 0)
UUIDS = ("GPU-aaaaaaaa-0000-0000-0000-000000000001", "GPU-aaaaaaaa-0000-0000-0000-000000000002")


@dataclass(frozen=True)
class Pod:
    """A pod with one GPU; times in seconds after START. `ended` with a phase, then `deleted`."""

    uid: str
    name: str
    gpu: int
    created: int
    scheduled: int
    deleted: int | None = None
    ended: int | None = None
    phase: str = "Succeeded"
    owner: tuple[str, str] = ("ReplicaSet", "serve-7d9f")


@dataclass
class Fleet:
    """Seconds below count from `start`. `restarts` are the instants at which the exporters' counters begin again at 0."""

    pods: list[Pod] = field(default_factory=list)
    restarts: tuple[int, ...] = ()
    cordoned: tuple[int, int] | None = None
    down: tuple[int, int] | None = None
    node: str = "gpu-node-1"
    start: datetime = START

    def _epoch(self, second: float) -> float:
        return (self.start - EPOCH).total_seconds() + second

    def dcgm(self, second: int) -> str:
        """dcgm-exporter's text."""
        lines = []
        since = second - max([0, *(restart for restart in self.restarts if restart <= second)])
        for name, kind, value in (
            ("DCGM_FI_DEV_SM_CLOCK", "gauge", lambda gpu: 1410 - gpu),
            ("DCGM_FI_DEV_GPU_TEMP", "gauge", lambda gpu: 30 + second % 40 + gpu),
            ("DCGM_FI_DEV_POWER_USAGE", "gauge", lambda gpu: 100 + second % 97 + gpu / 8),
            ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", lambda gpu: since * (150_000 + gpu)),
            ("DCGM_FI_DEV_GPU_UTIL", "gauge", lambda gpu: second % 101),
            ("DCGM_FI_DEV_XID_ERRORS", "gauge", lambda gpu: 0),
            ("DCGM_FI_DEV_FB_FREE", "gauge", lambda gpu: 40_000 - second % 1000),
            ("DCGM_FI_DEV_FB_USED", "gauge", lambda gpu: 536 + second % 1000),
            ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", lambda gpu: (second % 89) / 89),
            ("DCGM_FI_PROF_PCIE_TX_BYTES", "gauge", lambda gpu: 1_000_000 + second),
        ):
            lines += [f"# HELP {name} Something.", f"# TYPE {name} {kind}"]
            lines += [f"{name}{{{self._device(gpu, second)}}} {value(gpu):.6f}" for gpu in range(len(UUIDS))]
        return "\n".join(lines) + "\n"

    def _device(self, gpu: int, second: int) -> str:
        holder = next((pod for pod in self.pods if pod.gpu == gpu and self._is_held(pod, second)), None)
        who = ("main", "ml", holder.name) if holder else ("", "", "")
        return (
            f'gpu="{gpu}",UUID="{UUIDS[gpu]}",pci_bus_id="00000000:0{gpu}:00.0",device="nvidia{gpu}",'
            f'modelName="NVIDIA A100-SXM4-40GB",Hostname="{self.node}",DCGM_FI_DRIVER_VERSION="535.129.03",'
            f'container="{who[0]}",namespace="{who[1]}",pod="{who[2]}"'
        )

    @staticmethod
    def _is_held(pod: Pod, second: int) -> bool:
        end = min(value for value in (pod.ended, pod.deleted, 10**9) if value is not None)
        return pod.scheduled <= second < end

    def states(self, second: int) -> str:
        """kube-state-metrics' text."""
        lines = ['kube_deployment_created{namespace="ml",deployment="serve"} 1.7e+09']
        node = f'node="{self.node}"'
        lines += [
            f'kube_node_info{{{node},kernel_version="5.15.0",provider_id="aws:///eu-west-1a/i-0abc",internal_ip="10.0.0.9"}} 1',
            f'kube_node_labels{{{node},label_nvidia_com_gpu_product="NVIDIA-A100-SXM4-40GB",'
            f'label_node_kubernetes_io_instance_type="p4d.24xlarge",label_nvidia_com_gpu_count="2"}} 1',
            f"kube_node_spec_unschedulable{{{node}}} {int(_within(self.cordoned, second))}",
            f'kube_node_status_capacity{{{node},resource="cpu",unit="core"}} 96',
            f'kube_node_status_capacity{{{node},resource="memory",unit="byte"}} 1.2e+12',
            f'kube_node_status_capacity{{{node},resource="nvidia_com_gpu",unit="integer"}} 2',
            f'kube_node_status_allocatable{{{node},resource="nvidia_com_gpu",unit="integer"}} 2',
        ]
        ready = "unknown" if _within(self.down, second) else "true"
        lines += [
            f'kube_node_status_condition{{{node},condition="Ready",status="{status}"}} {int(status == ready)}'
            for status in ("true", "false", "unknown")
        ]
        owners = {pod.owner for pod in self.pods}
        lines += [
            f'kube_replicaset_owner{{namespace="ml",replicaset="{name}",owner_kind="Deployment",owner_name="serve",'
            'owner_is_controller="true"} 1'
            for kind, name in sorted(owners)
            if kind == "ReplicaSet"
        ]
        for pod in self.pods:
            if pod.created <= second and (pod.deleted is None or second < pod.deleted):
                lines += self._pod(pod, second)
        # another pod, without a GPU, that must not land
        lines += ['kube_pod_info{namespace="web",pod="nginx-1",uid="uid-nginx",node="cpu-node"} 1']
        return "\n".join(lines) + "\n"

    def _pod(self, pod: Pod, second: int) -> Iterable[str]:
        own = f'namespace="ml",pod="{pod.name}",uid="{pod.uid}"'
        is_bound = second >= pod.scheduled
        node = self.node if is_bound else ""
        is_ended = pod.ended is not None and second >= pod.ended
        current = pod.phase if is_ended else "Running" if second >= pod.scheduled + 20 else "Pending"
        yield (
            f'kube_pod_info{{{own},host_ip="10.0.0.9",pod_ip="10.1.0.{second // 2000}",node="{node}",'
            f'created_by_kind="{pod.owner[0]}",created_by_name="{pod.owner[1]}",priority_class="high",host_network="false"}} 1'
        )
        yield f'kube_pod_owner{{{own},owner_kind="{pod.owner[0]}",owner_name="{pod.owner[1]}",owner_is_controller="true"}} 1'
        yield f'kube_pod_labels{{{own},label_app_kubernetes_io_name="serve",label_example_com_team="search"}} 1'
        yield f"kube_pod_created{{{own}}} {self._epoch(pod.created):.0f}"
        for phase in ("Pending", "Running", "Succeeded", "Failed", "Unknown"):
            yield f'kube_pod_status_phase{{{own},phase="{phase}"}} {int(phase == current)}'
        where = f'{own},container="main",node="{node}"'
        yield f'kube_pod_container_resource_requests{{{where},resource="nvidia_com_gpu",unit="integer"}} 1'
        yield f'kube_pod_container_resource_requests{{{where},resource="cpu",unit="core"}} 8'
        if is_bound:
            yield f"kube_pod_status_scheduled_time{{{own}}} {self._epoch(pod.scheduled):.0f}"
            yield f"kube_pod_start_time{{{own}}} {self._epoch(pod.scheduled + 1):.0f}"
        if is_ended:
            yield f"kube_pod_completion_time{{{own}}} {self._epoch(pod.ended or 0):.0f}"

    def vllm(self, second: int) -> str:
        """vLLM's text."""
        since = second - max([0, *(restart for restart in self.restarts if restart <= second)])
        model = 'engine="0",model_name="llama"'
        lines = [
            f"process_start_time_seconds {self._epoch(second - since):.2f}",
            f"vllm:num_requests_running{{{model}}} {float(second % 7)}",
            f"vllm:num_requests_waiting{{{model}}} {float(second % 3)}",
            f"vllm:kv_cache_usage_perc{{{model}}} {(second % 50) / 50}",
            f"vllm:prompt_tokens_total{{{model}}} {float(since * 100)}",
            f"vllm:generation_tokens_total{{{model}}} {float(since * 20)}",
            f'vllm:request_success_total{{{model},finished_reason="stop"}} {float(since // 2)}',
            f'vllm:request_success_total{{{model},finished_reason="abort"}} {float(since // 50)}',
        ]
        for bound in ("0.3", "1.0", "+Inf"):
            count = {"0.3": since // 4, "1.0": since // 3, "+Inf": since // 2}[bound]
            lines.append(f'vllm:e2e_request_latency_seconds_bucket{{{model},le="{bound}"}} {float(count)}')
        lines += [
            f"vllm:e2e_request_latency_seconds_count{{{model}}} {float(since // 2)}",
            f"vllm:e2e_request_latency_seconds_sum{{{model}}} {float(since)}",
        ]
        return "\n".join(lines) + "\n"


def epoch(second: float) -> float:
    return (START - EPOCH).total_seconds() + second


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def _within(span: tuple[int, int] | None, second: int) -> bool:
    return span is not None and span[0] <= second < span[1]


@dataclass(frozen=True)
class Scrape:
    """One scraped address: what it answers at a second, its target's labels, and whether they stand before its own."""

    text: Callable[[int], str]
    labels: Mapping[str, str]
    honors_labels: bool = True


def scraped(scrape: Scrape, second: int) -> Iterable[tuple[str, dict[str, str], float]]:
    """(name, labels, value) of every series, with the labels as Prometheus stores them."""
    for family in text_string_to_metric_families(re.sub(r"(?m)^#.*\n", "", scrape.text(second))):
        for name, own, value, *_ in family.samples:
            labels = {label: text for label, text in own.items() if text}
            for label, text in scrape.labels.items():
                if label in labels and not scrape.honors_labels:
                    labels[f"exported_{label}"] = labels[label]
                if label not in labels or not scrape.honors_labels:
                    labels[label] = text
            yield name, labels, value


def store(api: FakePrometheus, scrapes: Iterable[Scrape], seconds: Iterable[int], offset_ms: int = 123) -> None:
    """Put what the addresses answer at the seconds into the API."""
    scrapes = list(scrapes)
    for second in seconds:
        at_ms = round(epoch(second) * 1000) + offset_ms
        for scrape in scrapes:
            for name, labels, value in scraped(scrape, second):
                api.add(name, labels, [(at_ms, value)])
            api.add("up", scrape.labels, [(at_ms, 1.0)])


def scrapes_of(fleet: Fleet, *, honors_labels: bool = True, **more: str) -> list[Scrape]:
    """The addresses of a fleet as kube-prometheus scrapes them."""
    own = {} if honors_labels else {"pod": "gpu-metrics-x1", "namespace": "monitoring", "container": "exporter"}
    return [
        Scrape(fleet.dcgm, {"job": "dcgm", "instance": "10.0.0.9:9400", **own, **more}, honors_labels),
        Scrape(fleet.states, {"job": "ksm", "instance": "10.0.0.1:8080", **own, **more}, honors_labels),
        Scrape(fleet.vllm, {"job": "vllm", "instance": "10.1.0.5:8000", "namespace": "ml", "pod": "serve-0", **more}),
    ]
