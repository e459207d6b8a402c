"""Which metrics of kube-state-metrics are read, as data."""

from __future__ import annotations

POD_INFO = "kube_pod_info"
NODE_INFO = "kube_node_info"
#: what pods asked for; the names with a resource in them are kube-state-metrics' before 2.0
GPU_RESOURCE_METRICS = frozenset(
    {
        "kube_pod_container_resource_requests",
        "kube_pod_container_resource_limits",
        "kube_pod_container_resource_requests_nvidia_gpu_devices",
        "kube_pod_container_resource_limits_nvidia_gpu_devices",
    }
)
#: a series per resource, which the label `resource` names
RESOURCES_BY_LABEL = frozenset(
    {
        "kube_pod_container_resource_requests",
        "kube_pod_container_resource_limits",
        "kube_node_status_capacity",
        "kube_node_status_allocatable",
    }
)
POD_METRICS = frozenset(
    {
        POD_INFO,
        "kube_pod_annotations",
        "kube_pod_container_status_terminated_reason",
        "kube_pod_created",
        "kube_pod_labels",
        "kube_pod_owner",
        "kube_pod_start_time",
        "kube_pod_completion_time",
        "kube_pod_deletion_timestamp",
        "kube_pod_status_phase",
        "kube_pod_status_reason",
        "kube_pod_status_scheduled_time",
    }
)
OWNER_METRICS = frozenset({"kube_replicaset_owner", "kube_job_owner"})
NODE_METRICS = frozenset(
    {
        NODE_INFO,
        "kube_node_created",
        "kube_node_labels",
        "kube_node_spec_unschedulable",
        "kube_node_spec_taint",
        "kube_node_status_condition",
        "kube_node_status_capacity",
        "kube_node_status_allocatable",
        "kube_node_status_capacity_cpu_cores",
        "kube_node_status_capacity_memory_bytes",
        "kube_node_status_capacity_nvidia_gpu_cards",
    }
)
STATE_METRICS = GPU_RESOURCE_METRICS | POD_METRICS | OWNER_METRICS | NODE_METRICS
