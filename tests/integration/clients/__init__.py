"""Readers of the published file, each in the environment of its client; see `campaign`."""
