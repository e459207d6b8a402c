"""What every reader of metrics text shares: the text format, and counters that grow and restart."""
