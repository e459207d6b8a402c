"""Tests show that each part keeps its word."""
