"""Whole paths: land, build, gate, publish."""
