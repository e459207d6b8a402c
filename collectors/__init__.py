"""Read a source for a window; land raw rows and an outcome."""
