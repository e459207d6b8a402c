"""Kubernetes: which pod held which GPU, for how long and on which node, from the API server or from saved objects."""
