"""Decide whether a build is fit to publish."""
