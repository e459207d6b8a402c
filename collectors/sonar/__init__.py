"""Sonar (NordicHPC): snapshots of the processes and cards of a node, for machines with a scheduler and without."""
