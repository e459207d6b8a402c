"""Bills in the FOCUS format: one landed row per line of the bill."""
