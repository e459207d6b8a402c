"""How long landing and building take, as ratios to DuckDB's own scan of the same Parquet in the same run."""
