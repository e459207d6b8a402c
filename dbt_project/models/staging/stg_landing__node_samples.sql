{{ landed_last_of_day('node_samples', ['cluster', 'node', 'interval_start_at']) }}
