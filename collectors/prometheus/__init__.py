"""A Prometheus-compatible API: what it has stored of dcgm-exporter, kube-state-metrics and inference servers."""
