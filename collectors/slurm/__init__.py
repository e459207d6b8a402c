"""Slurm: what `sacct` says of jobs, what `scontrol` says of nodes."""
