"""What the labels of a series say: which slot it measures, on which node, and who holds the slot.

Labels of the exporter: `gpu`, `UUID` (`uuid` with old names), `pci_bus_id`, `device`, `modelName`, under MIG
`GPU_I_PROFILE` and `GPU_I_ID`, `Hostname`, fields of the counters file typed `label`, then `container`, `namespace`,
`pod`, `pod_uid`, `vgpu`, `hpc_job`. A scrape configuration adds its target's and renames what was there `exported_…`.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address

#: labels that name the node because somebody wrote them for that
NODE_LABELS = ("node", "nodeName", "node_name", "NodeName", "kubernetes_node", "kubernetes_node_name", "k8s_node_name")
#: the exporter's host: the node only if it was told its node's name or runs outside a container
HOST_LABELS = ("Hostname", "hostname")
UUID_LABELS = ("UUID", "uuid", "gpu_uuid", "GPU_UUID")
SLOT_LABELS = ("GPU_I_UUID", "MIG_UUID", "mig_uuid", "slot_uuid")
#: ids, not names; the exported ones are the workload's where the scrape gave the target labels of its own
POD_ID_LABELS = ("exported_pod_uid", "pod_uid")
#: ids of pods only where they look like one: other exporters give a user's number here
UID_LABELS = ("exported_uid", "uid")
SLURM_JOB_LABEL = "hpc_job"

#: a pod or service of the exporter, or a container's id: what `Hostname` says where the exporter does not know its node
_EXPORTER_POD = re.compile(r"(.+-)?dcgm-exporter(-[a-z0-9]+){0,2}")
_CONTAINER_ID = re.compile(r"[0-9a-f]{12}|[0-9a-f]{64}")
_LOOPBACK = re.compile(r"^(localhost|127\.[\d.]+|\[?::1\]?|0\.0\.0\.0)$")
#: `metadata.uid`: a UUID, or the hash that a static pod has
_POD_UID = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", re.IGNORECASE)
_SERVICE = re.compile(r".*\.svc(\..*)?")


@dataclass(frozen=True)
class Slot:
    """What is measured: a whole GPU, or one MIG instance of it (`slot_uuid`)."""

    gpu_uuid: str
    slot_uuid: str | None

    def __str__(self) -> str:
        return self.slot_uuid or self.gpu_uuid


@dataclass(frozen=True)
class Holder:
    """Who the labels say uses the slot; blank labels are no evidence. `job_id` is a pod's uid or a Slurm job's id."""

    namespace: str | None
    pod: str | None
    job_id: str | None

    @property
    def evidence(self) -> str | None:
        """What `run_gpus` names it by: the id, else `<namespace>/<pod>`, which no id can be; None where both are absent."""
        return self.job_id or (f"{self.namespace}/{self.pod}" if self.namespace and self.pod else None)


@dataclass(frozen=True)
class Nodes:
    """What a person says about the nodes: one for everything, or names of exporters and addresses → their node."""

    everywhere: str | None = None
    named: Mapping[str, str] = field(default_factory=dict)

    def find(self, labels: Mapping[str, str], source: str) -> str | None:
        """The node of a series that was read from `source` (an address, a file's name); None where nothing names one.

        A label that was written to name the node stands before the exporter's host name, and that before the address,
        unless it is a pod's or a container's name, which is used (and doubted) only where nothing else is there.
        """
        if self.everywhere:
            return self.everywhere
        written, host = _first(labels, NODE_LABELS), _first(labels, HOST_LABELS)
        address, instance = host_of(source), _host_of_instance(labels.get("instance", ""))
        for name in (written, host, source, address, instance):
            if name and name in self.named:
                return self.named[name]
        host = None if host and _LOOPBACK.match(host) else host
        if host and is_no_node(host):
            return written or _node_of_address(address) or _node_of_address(instance) or host
        outside = None if not address or _LOOPBACK.match(address) else address
        return written or host or _node_of_address(address) or instance or outside


def is_no_node(name: str) -> bool:
    """Whether a host name looks like an exporter's pod or container."""
    return bool(_EXPORTER_POD.fullmatch(name) or _CONTAINER_ID.fullmatch(name))


def host_of(source: str) -> str | None:
    """The host of an address, None for a file's name."""
    try:
        return urllib.parse.urlsplit(source).hostname if "://" in source else None
    except ValueError:
        return None


def slot_of(labels: Mapping[str, str], node: str) -> Slot | None:
    """Which device, and which instance of it: by UUID, else by node and PCI address."""
    gpu = (_first(labels, UUID_LABELS) or "").partition("::")[0]
    pci = labels.get("pci_bus_id", "").strip()
    instance = _first(labels, SLOT_LABELS)
    nested = re.fullmatch(r"MIG-(GPU-[^/]+)/(\d+)/\d+", gpu)
    if nested:  # drivers before R470 name an instance by its card's UUID and its own numbers
        return Slot(nested.group(1), gpu)
    if gpu.startswith("MIG-"):  # names the instance, not the card
        gpu, instance = "", gpu
    if not gpu:
        if not pci:
            return None
        gpu = f"{node}/{pci}"
    number = labels.get("GPU_I_ID", "").strip()
    return Slot(gpu, instance or (f"{gpu}/gi{number}" if number else None))


def holder_of(labels: Mapping[str, str]) -> Holder | None:
    """The workload a series is labelled with; None where the labels are blank, or name the exporter itself.

    A scrape that puts its target's `pod` on every series moves the workload's to `exported_pod`; where the workload's
    is blank, the exporter's own stands alone.
    """
    exported = "exported_pod" in labels
    pod = _first(labels, ("exported_pod",) if exported else ("pod", "pod_name"))
    # a target without a namespace of its own leaves the workload's where it was
    names = ("exported_namespace", "namespace") if exported else ("namespace", "pod_namespace")
    namespace = _first(labels, names)
    slurm_job = _first(labels, (SLURM_JOB_LABEL,))
    # an epilog that writes 0 into the mapping file says that no job is there
    slurm_job = None if slurm_job == "0" else slurm_job
    if pod and _EXPORTER_POD.fullmatch(pod):
        return Holder(None, None, slurm_job) if slurm_job else None
    uid = _first(labels, POD_ID_LABELS) or next(
        (labels[name].strip() for name in UID_LABELS if _POD_UID.fullmatch(labels.get(name, "").strip())), None
    )
    job_id = uid or slurm_job
    return Holder(namespace, pod, job_id) if pod or job_id else None


def is_of_other_entity(labels: Mapping[str, str]) -> bool:
    """Whether a series measures a link, a switch or a CPU, which the exporter gives beside GPUs."""
    if "nvlink" in labels or "nvswitch" in labels:
        return True
    return ("cpu" in labels or "cpucore" in labels) and not _first(labels, UUID_LABELS)


def _first(labels: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((labels[name].strip() for name in names if labels.get(name, "").strip()), None)


def _host_of_instance(instance: str) -> str | None:
    host = re.sub(r":\d+$", "", instance.strip())
    return host if host and not _LOOPBACK.match(host) else None


def _node_of_address(host: str | None) -> str | None:
    """The host of an address where it can name a node: no IP address, no service of Kubernetes, not this machine."""
    if not host or _LOOPBACK.match(host) or _SERVICE.fullmatch(host) or is_no_node(host):
        return None
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return host
    return None
