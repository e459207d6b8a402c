"""What is read of Kubernetes objects, as data: resource names, labels, annotations and what they mean here.

Sources: NVIDIA's device plugin, GPU feature discovery and DRA driver; ROCm's and Intel's device plugins; KAI scheduler
(`pkg/common/constants`), HAMi (`docs/develop/protocol.md`), Volcano, Koordinator and Alibaba's gpushare.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

MEBIBYTE = 1 << 20

#: a whole card each, or a replica of one where the node says that it is shared
WHOLE_GPUS = frozenset(
    {"nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "alpha.kubernetes.io/nvidia-gpu"}
)
#: a replica of a card: what `renameByDefault` makes of the names above
SHARED = ".shared"
MIG = re.compile(r"nvidia\.com/mig-(?P<profile>(?:\d+c\.)?\d+g\.\d+gb(?:\.[a-z.]+)?)", re.ASCII)
#: 100 is one card
PERCENT_OF_GPU = (
    "koordinator.sh/gpu",
    "koordinator.sh/gpu-memory-ratio",
    "koordinator.sh/gpu-core",
    "kubernetes.io/gpu",
    "kubernetes.io/gpu-memory-ratio",
    "kubernetes.io/gpu-core",
    "tencent.com/vcuda-core",
    "tke.cloud.tencent.com/qgpu-core",
)
#: over how many cards the percentages are spread
PERCENT_SPREAD = ("koordinator.sh/gpu.shared", "koordinator.sh/gpu-shared")
#: memory of a card in the unit in which the node offers its cards' memory together → how many cards that is
MEMORY_OF_NODE = {
    "aliyun.com/gpu-mem": "aliyun.com/gpu-count",
    "alibabacloud.com/gpu-mem": "alibabacloud.com/gpu-count",
    "volcano.sh/gpu-memory": "volcano.sh/gpu-number",
}
#: devices, with MiB of memory, percent of memory and percent of cores of each (HAMi and its kin)
VIRTUAL_GPUS = {
    "nvidia.com/gpu": ("nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"),
    "volcano.sh/vgpu-number": ("volcano.sh/vgpu-memory", "volcano.sh/vgpu-memory-percentage", "volcano.sh/vgpu-cores"),
}
INTEL_MILLICORES = "gpu.intel.com/millicores"

#: names that say how a GPU is asked for, and are none themselves
ATTRIBUTES = frozenset(
    {INTEL_MILLICORES, "gpu.intel.com/memory.max", "gpu.intel.com/tiles", "nvidia.com/priority", "tencent.com/vcuda-memory"}
    | {
        "tke.cloud.tencent.com/qgpu-memory",
        "koordinator.sh/gpu-memory",
        "kubernetes.io/gpu-memory",
        "aliyun.com/gpu-core.percentage",
    }
    | {"gpu.intel.com/i915_monitoring", "gpu.intel.com/xe_monitoring", *PERCENT_SPREAD, *MEMORY_OF_NODE.values()}
    | {name for names in VIRTUAL_GPUS.values() for name in names}
)
#: what a device plugin offers and is no GPU
NO_GPUS = re.compile(
    r"^(aws\.amazon\.com/neuron|habana\.ai/|google\.com/tpu|huawei\.com/|cambricon\.com/|xilinx\.com/|furiosa\.ai/|rebellions\.ai/)"
    r"|/(rdma|hca|roce|sriov|hostdev|nic|ib)|^nvidia\.com/(rdma|hostdev|gds|ufm|cx\d|mlnx)"
)
#: names of these vendors, or of these words, are GPUs in some way: those that are not known here are listed once
GPU_LIKE = re.compile(r"^(nvidia|amd)\.com/|^gpu\.intel\.com/|(^|[./_-])v?gpus?([./_-]|$)", re.IGNORECASE)

#: annotations of a pod that are read; nothing else of them is kept
FRACTION, FRACTION_MEMORY, FRACTION_DEVICES = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"
RESERVES_GPU = "run.ai/reserve_for_gpu_index"
RUNAI_MIG_DEVICE = "runai-mig-device"
ALIYUN_INDEX, ALIYUN_OF_POD, ALIYUN_OF_GPU = "ALIYUN_COM_GPU_MEM_IDX", "ALIYUN_COM_GPU_MEM_POD", "ALIYUN_COM_GPU_MEM_DEV"
ALIYUN_ALLOCATION = "scheduler.framework.gpushare.allocation"
KOORDINATOR_ALLOCATED = "scheduling.koordinator.sh/device-allocated"
#: `UUID,type,MiB,percent of cores:` per device, `;` per container
VGPU_ALLOCATED = ("hami.io/vgpu-devices-allocated", "volcano.sh/vgpu-ids-new")
TOP_OWNER = ("kai.scheduler/top-owner-metadata", "run.ai/top-owner-metadata")
USER_ANNOTATIONS = ("user", "hub.jupyter.org/username")
QUEUE_ANNOTATIONS = ("scheduling.volcano.sh/queue-name", "yunikorn.apache.org/queue")
#: annotations that are read and say nothing of GPUs
ABOUT_PEOPLE = frozenset({*TOP_OWNER, *USER_ANNOTATIONS, *QUEUE_ANNOTATIONS})
CONTAINER_FRACTION = re.compile(
    r"nvidia\.com/container\.(?P<container>.+)\.gpu(?P<what>-memory\.request|-memory\.limit|s\.devices)"
)
MIG_ANNOTATION = re.compile(r"nvidia\.com/mig-\d")
POD_ANNOTATIONS = frozenset(
    {FRACTION, FRACTION_MEMORY, FRACTION_DEVICES, RESERVES_GPU, RUNAI_MIG_DEVICE, ALIYUN_INDEX, ALIYUN_OF_POD, ALIYUN_OF_GPU}
    | {ALIYUN_ALLOCATION, KOORDINATOR_ALLOCATED, *VGPU_ALLOCATED, *ABOUT_PEOPLE}
)

#: the group of pods that share a reserved card; of several cards one label each, `runai-gpu-group/<group>`
GPU_GROUP = "runai-gpu-group"
RESERVATION_LABEL = "app.runai.resource.reservation"
RESERVATION_APPS = frozenset({"runai-reservation", "kai-resource-reservation"})
RESERVATION_NAME = re.compile(r"(runai-reservation-gpu|gpu-reservation)-")

QUEUE_LABELS = (
    "kueue.x-k8s.io/queue-name",
    "kai.scheduler/queue",
    "runai/queue",
    "scheduling.volcano.sh/queue-name",
    "volcano.sh/queue-name",
    "queue",
)
USER_LABELS = ("hub.jupyter.org/username", "username", "user")

#: labels of a pod that are landed; those whose last part is one of `OWN_LABELS` too (`example.com/team`), under that part
LANDED_LABELS = frozenset(
    {f"app.kubernetes.io/{name}" for name in ("name", "instance", "component", "part-of", "managed-by")}
    | {
        "app",
        "k8s-app",
        "project",
        "release",
        "dag_id",
        "task_id",
        "workloadKind",
        "workloadName",
        "ray.io/group",
        "ray.io/node-type",
    }
    | {"training.kubeflow.org/replica-type", "training.kubeflow.org/replica-index", "kueue.x-k8s.io/priority-class"}
)
OWN_LABELS = ("team", "application", "model", "department", "cost-center", "environment", "owner-team")
LABEL_NAMES = {"owner-team": "team"}

#: the label that names the top of a chain of owners, and its kind; the first that is there decides
OWNER_LABELS: tuple[tuple[str, str], ...] = (
    ("serving.kserve.io/inferenceservice", "InferenceService"),
    ("leaderworkerset.sigs.k8s.io/name", "LeaderWorkerSet"),
    ("jobset.sigs.k8s.io/jobset-name", "JobSet"),
    ("workflows.argoproj.io/cron-workflow", "CronWorkflow"),
    ("notebook-name", "Notebook"),
    ("serving.knative.dev/service", "KnativeService"),
    ("sparkoperator.k8s.io/app-name", "SparkApplication"),
)
#: kinds that own pods: the top of a chain has no owner to read of it
CONTROLLERS = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicationController"})
#: what KubeRay says a RayCluster was made for
RAY_ORIGIN_NAME, RAY_ORIGIN_KIND = "ray.io/originated-from-cr-name", "ray.io/originated-from-crd"
#: pods with one of these labels serve together as one replica
REPLICA_LABELS = (
    "leaderworkerset.sigs.k8s.io/group-key",
    "ray.io/cluster",
    "grove.io/podgang",
    "nvidia.com/dynamo-graph-replica",
)
LWS_NAME, LWS_GROUP = "leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/group-index"

JUPYTER = re.compile(r"jupyter|(^|[/:_-])notebook([:@_-]|$)", re.IGNORECASE)
#: Run:ai's priority classes of workloads that a person works in
INTERACTIVE_PRIORITIES = frozenset({"build", "interactive-preemptible"})

#: labels of a node → what they are here, the first one there decides
NODE_MODEL_LABELS = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "beta.amd.com/gpu.product-name",
    "gpu.intel.com/product",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "k8s.amazonaws.com/accelerator",
    "node.koordinator.sh/gpu-model",
)
INSTANCE_TYPE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
REGION_LABELS = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
ZONE_LABELS = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
NODE_POOL_LABELS = (
    "karpenter.sh/nodepool",
    "karpenter.sh/provisioner-name",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "agentpool",
    "runai/node-pool",
    "kai.scheduler/node-pool",
)
#: label → the values that say spot, in lower case
SPOT_LABELS: Mapping[str, frozenset[str]] = {
    "eks.amazonaws.com/capacityType": frozenset({"spot"}),
    "karpenter.sh/capacity-type": frozenset({"spot"}),
    "cloud.google.com/gke-spot": frozenset({"true"}),
    "cloud.google.com/gke-preemptible": frozenset({"true"}),
    "cloud.google.com/gke-provisioning": frozenset({"spot", "preemptible"}),
    "kubernetes.azure.com/scalesetpriority": frozenset({"spot"}),
    "node.kubernetes.io/lifecycle": frozenset({"spot", "ec2spot"}),
}
GKE_PARTITION, GKE_CLIENTS = "cloud.google.com/gke-gpu-partition-size", "cloud.google.com/gke-max-shared-clients-per-gpu"
GKE_COUNT = "cloud.google.com/gke-accelerator-count"
DRIVER_LABELS = ("nvidia.com/cuda.driver-version.full",)
DRIVER_PARTS = tuple(f"nvidia.com/cuda.driver.{part}" for part in ("major", "minor", "rev"))

#: annotations of a node that tell its devices
HAMI_REGISTER, VOLCANO_REGISTER = "hami.io/node-nvidia-register", "volcano.sh/node-vgpu-register"
RUNAI_MIG_MAPPING = "run.ai/mig-mapping"

#: scheme of `spec.providerID` → provider, as in the bills
PROVIDERS = {
    "aws": "AWS",
    "gce": "Google Cloud",
    "azure": "Microsoft",
    "oci": "Oracle",
    "linode": "Akamai",
    "digitalocean": "DigitalOcean",
}

#: a DRA driver of GPUs: gpu.nvidia.com, gpu.amd.com, gpu.intel.com, gpu.example.com
GPU_DRIVER = re.compile(r"(^|[.-])gpu([.-]|$)", re.IGNORECASE)

#: taint → the state it puts a node into
TAINTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"node\.kubernetes\.io/out-of-service"), "down"),
    (re.compile(r"maintenance", re.IGNORECASE), "maintenance"),
    (
        re.compile(
            r"ToBeDeletedByClusterAutoscaler|DeletionCandidateOfClusterAutoscaler|karpenter\.sh/(disrupted|disruption)"
            r"|aws-node-termination-handler/|cloud\.google\.com/impending-node-termination|node\.kubernetes\.io/unschedulable"
        ),
        "draining",
    ),
)
CORDONED = "node.kubernetes.io/unschedulable"
#: a candidate is still given pods
SOFT_TAINT = "PreferNoSchedule"

#: reason of an event → the state that a pod which is gone ended in
END_EVENTS: Mapping[str, str] = {
    "Killing": "Deleted",
    "Preempted": "PREEMPTED",
    "Evicted": "Failed",
    "TaintManagerEviction": "Failed",
}
#: status.reason of a pod that failed, or the reason of its last container → the state that dbt tells apart
FAILURES: Mapping[str, str] = {
    "OOMKilled": "OUT_OF_MEMORY",
    "NodeLost": "NODE_FAIL",
    "DeadlineExceeded": "DEADLINE",
    "Preempting": "PREEMPTED",
    "PreemptionByScheduler": "PREEMPTED",
}
