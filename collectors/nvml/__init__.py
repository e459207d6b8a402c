"""The agent of a GPU host: its GPUs through NVML, its processes, and the host side of waiting from /proc."""
