"""Rows that already have the landing shape: CSV, JSON lines, Parquet."""
